"""Chooses how a run is shown: a live view on a terminal, else a line a second on stderr."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from ehkafka.cli.demo.progress import ProgressLines
from ehkafka.cli.demo.view import LiveView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ehkafka.cli.demo.picture import Picture


class Screen(Protocol):
    """Shows one picture after another, on the session's thread."""

    def show(self, picture: Picture) -> None:
        """Show the picture, or leave it out if it comes too soon after the last."""


@contextmanager
def make_screen(*, as_json: bool, warnings: Sequence[str]) -> Iterator[Screen]:
    """Own the terminal, if there is one, until the block ends."""
    if as_json or not sys.stdout.isatty():
        yield ProgressLines(sys.stderr)
        return
    with LiveView(warnings) as view:
        yield view
