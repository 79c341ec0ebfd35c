"""How a run is shown without a terminal: one plain line a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from ehkafka.cli.demo.picture import Picture

LINE_EVERY_S: Final = 1.0


class ProgressLines:
    """Writes to the given stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next_s = 0.0

    def show(self, picture: Picture) -> None:
        """Write a line, if the last one is a second old."""
        if picture.snapshot.uptime_s < self._next_s:
            return
        self._next_s = picture.snapshot.uptime_s + LINE_EVERY_S
        self._stream.write(progress_line(picture) + "\n")
        self._stream.flush()


def progress_line(picture: Picture) -> str:
    """Say one moment in one line."""
    snapshot, verdict = picture.snapshot, picture.verdict
    lag = "?" if snapshot.lag_records is None else snapshot.lag_records
    checked = "not checked yet"
    if verdict is not None:
        checked = "no violation so far" if verdict.ok else f"VIOLATED: {verdict.violations}"
    return (
        f"{picture.elapsed_s:5.1f} s {picture.phase}: {picture.rate_per_s:.0f} records/s, "
        f"{snapshot.finished_records} of {picture.stored_records} finished, lag {lag}, "
        f"backlog {snapshot.backlog_records}, lanes {snapshot.lanes}, {checked}"
    )
