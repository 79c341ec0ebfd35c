"""Whether a command imports the program just now, to find its app: then nothing may be run by the way.

A program that calls `app.run()` at its top level would run while `ehkafka run` imports it, under none of the
command's options. Written by the command line around its import, read by `run`, `start` and `run_on_spark` of
`App`; main thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is being imported. The command line's, for the time of its import.
_imported: str | None = None


@contextmanager
def importing(name: str) -> Iterator[None]:
    """Let no app be run while the block imports this module."""
    global _imported  # noqa: PLW0603 - a process imports one program
    _imported = name
    try:
        yield
    finally:
        _imported = None


def refuse_while_importing() -> None:
    """Raise `ConfigurationError` inside of such a block."""
    if _imported is not None:
        raise ConfigurationError(
            f"{_imported} runs its app while the command imports it, which only looks for the app there: "
            "put the call under `if __name__ == '__main__':`, or start the program by python."
        )
