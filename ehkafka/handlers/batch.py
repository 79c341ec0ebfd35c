"""Batch handlers: what `App.batch_handler` was given, checked. Values, read when the app starts.

As `spec`, which is for handlers of one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import HandlerSpec
from ehkafka.settings.option import option
from ehkafka.workers.batches.taking import BatchLimits
from ehkafka.workers.option import WORKERS_MAX, is_count

if TYPE_CHECKING:
    from ehkafka.settings import Settings
    from ehkafka.workers.option import WorkersOption

# More than any backlog that is worth its memory.
BATCH_RECORDS_MAX = 1_000_000
# For a longer wait another tool is the right one.
WAIT_S_MAX = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(HandlerSpec):
    """A handler of batches. `function` is a callable of one `Batch`."""

    workers: WorkersOption = option(
        4,
        "how many batches run at the same time. Threads run them, or one event loop as tasks of an `async "
        "def`.",
        section="Workers",
        given="int",
        outside=True,
        use=f"give a number from 1 to {WORKERS_MAX}, because each batch has its own thread. workers='auto' "
        "does not work with batches, because more workers only make the batches smaller.",
    )
    batch_records_max: int = option(
        500,
        "number of records with which a batch is full.",
        section="Size: a batch starts when it is full, when its time is over, and at a stop or revoke",
        outside=True,
        least=1,
        most=BATCH_RECORDS_MAX,
        use=f"use a number from 1 to {BATCH_RECORDS_MAX}.",
    )
    batch_bytes_max: int | None = option(
        None,
        "number of bytes of values with which a batch is full. `None`: no limit.",
        outside=True,
        least=1,
        use="use a number of bytes, 1 or more, or None.",
    )
    wait_s_max: float = option(
        1.0,
        "how long a batch waits after its first record. 0: not at all.",
        outside=True,
        least=0,
        most=WAIT_S_MAX,
        use=f"use a number of seconds from 0 to {WAIT_S_MAX:.0f}.",
    )

    argument: ClassVar[str] = "batch"

    def has_workers(self) -> bool:
        """Tell whether it may have so many workers."""
        return is_count(self.workers, WORKERS_MAX)

    def mistakes(self) -> dict[str, bool]:
        """Return what is wrong though each option is right by itself, and whether it is so."""
        one_batch = (
            "it is a class, which gets one instance per partition, but a batch has records of several: give "
            "a function, or an instance with __call__(batch)."
        )
        return {one_batch: self.is_class, **HandlerSpec.mistakes(self)}

    def limits(self) -> BatchLimits:
        """Return what bounds its batches."""
        return BatchLimits(
            records_max=self.batch_records_max,
            bytes_max=self.batch_bytes_max,
            wait_s_max=self.wait_s_max,
        )

    def check_backlog(self, settings: Settings) -> None:
        """Refuse batches that the backlog never holds: each would wait its `wait_s_max` for nothing."""
        enough = self.batch_records_max
        if enough > settings.backlog_records_max:
            raise ConfigurationError(
                f"batch handler {self.name!r}: a batch waits for {enough} records, but the backlog holds "
                f"at most backlog_records_max={settings.backlog_records_max}. Raise backlog_records_max, "
                f"or lower batch_records_max."
            )
