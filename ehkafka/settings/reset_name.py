"""What the setting `reset` may be: a flag, or the name of a reset that is made once. Pure."""

from __future__ import annotations

import re

from ehkafka.errors import ConfigurationError

# It goes into the metadata of every commit.
RESET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,63}")


def check_reset(reset: object) -> None:
    """Refuse what is neither a flag nor a name. Raises `ConfigurationError`."""
    if isinstance(reset, bool) or (isinstance(reset, str) and RESET_NAME.fullmatch(reset)):
        return
    raise ConfigurationError(
        f"reset={reset!r}: give True, False, or a name of up to 64 letters, digits and .-_:+ that begins "
        "with a letter or digit, such as reset='2026-06-01'."
    )
