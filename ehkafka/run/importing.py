"""Whether somebody imports the program just now, to find its app: then nothing may be run by the way.

A program that calls `app.run()` at its top level would run while `ehkafka run`, or a member of a supervisor,
imports it, under none of the options that were given there. Written by these around their import, read by
`run`, `start` and `run_on_spark` of `App`; main thread.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What is being imported, and by whom, for the time of the import.
_imported: tuple[str, str] | None = None


@contextmanager
def importing(name: str, by: str = "the command") -> Iterator[None]:
    """Let no app be run while the block imports this module."""
    global _imported  # noqa: PLW0603 - a process imports one program
    _imported = name, by
    try:
        yield
    finally:
        _imported = None


def refuse_while_importing() -> None:
    """Raise `ConfigurationError` inside of such a block."""
    if _imported is not None:
        name, by = _imported
        raise ConfigurationError(
            f"{name} runs its app while {by} imports it, which only looks for the app there: "
            "put the call under `if __name__ == '__main__':`, or start the program by python."
        )
