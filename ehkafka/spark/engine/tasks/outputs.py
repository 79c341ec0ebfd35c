"""What one task's handlers send: by the local engine's own parts, with this process's kept producer.

On the task's main thread. A task reports its rows only when all of its outputs are acknowledged; one that
fails takes back what is left, before Spark hears of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.spark.engine.tasks.kept_producers import keep_or_close, lend_producer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.endpoint import Endpoint
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.run.assembly import Assembly
    from ehkafka.run.outputs import Outputs
    from ehkafka.spark.engine.tasks.kept_producers import OutputProducer


PURGED_S: Final = 6.0
"""What a failed task waits for what is on its way: the last answers, and the purge."""


class TaskOutputs:
    """Outputs of one task. `outputs` is None where none of its handlers has any."""

    def __init__(self, assembly: Assembly, endpoint: Endpoint) -> None:
        """Raise `ConfigurationError`. Opens nothing."""
        self._lent: OutputProducer | None = None
        # All is acknowledged, and nobody can send any more: the producer may serve another task.
        self.are_safe = False

        def lend() -> OneProducer:
            self._lent = lend_producer(endpoint, assembly.app.settings, assembly.bus.emit)
            return self._lent.producer

        self.outputs: Outputs | None = assembly.outputs(lend)

    def start(self) -> None:
        """Open the producer, unless it is, and start sending. Raises `EhkafkaError`."""
        if self.outputs is not None:
            self.outputs.start()

    def count(self) -> int:
        """Return how many outputs are not acknowledged."""
        return 0 if self.outputs is None else self.outputs.count()

    def end(self, epochs: Sequence[Epoch]) -> None:
        """Take back what is left of epochs that have ended; bounded."""
        if self.outputs is not None:
            self.outputs.end(epochs, PURGED_S)

    def stop(self) -> None:
        """End the sender; keep the producer, or close it."""
        if self.outputs is None:
            return
        self.outputs.stop(0.0, keeps_producer=self.are_safe)
        if self._lent is not None and not self.outputs.is_running:
            keep_or_close(self._lent, is_spotless=self.are_safe)

    @property
    def still_running(self) -> tuple[str, ...]:
        """What could not be ended, after `stop`: its process must take no other task."""
        return ("ehkafka-outputs",) if self.outputs is not None and self.outputs.is_running else ()
