"""What one idempotent producer tells of its id: whether it has one, and whether the broker still knows it.

librdkafka asks for the id by itself as soon as it is connected, asks again every half second where that is
refused for now, and tells of it nowhere but in its statistics and its log. It answers error 59 by giving the
id a new epoch and sending again, without a word to us: only the epoch shows it. Pure; all methods are called
inside `poll`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

STATISTICS_MS: Final = 200
"""Between two looks at the id. One takes librdkafka some 50 µs."""

_HAS_ID = "Assigned"
# librdkafka's word for the log lines about an id that was asked for and not given.
_ASKING = "GETPID"


class ProducerId:
    """Hears one producer's statistics and log."""

    def __init__(self, log: Callable[[int, str], None]) -> None:
        """`log` gets each line of librdkafka's log."""
        self._log = log
        self.is_given = False
        # How often the producer has raised its epoch by itself, since its id was given. An id is given with
        # epoch 0; each refusal of what was sent with it raises that.
        self.epochs_raised = 0
        # The last refusal for now, in librdkafka's words.
        self.refusal: str | None = None

    def take_statistics(self, statistics: dict[str, Any]) -> None:
        """Take librdkafka's statistics."""
        reported: dict[str, Any] = statistics.get("eos", {})
        if reported.get("idemp_state") == _HAS_ID:
            self.is_given, self.refusal = True, None
            self.epochs_raised = int(reported.get("producer_epoch", 0))

    def log(self, level: int, text: str, *arguments: object) -> None:
        """Take one line of librdkafka's log; confluent-kafka takes this object for a logger."""
        line = text % arguments if arguments else text
        if line.startswith(_ASKING):
            self.refusal = line.partition("]: ")[2] or line
        self._log(level, line)
