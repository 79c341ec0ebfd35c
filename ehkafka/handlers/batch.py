"""Batch handlers: what `App.batch_handler` was given, checked. Values, read when the app starts.

As `spec`, which is for handlers of one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import WORKERS_MAX, HandlerSpec, is_count, is_within
from ehkafka.workers.batches.taking import BatchLimits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.settings import Settings

# More than any backlog that is worth its memory.
BATCH_RECORDS_MAX = 1_000_000
# For a longer wait another tool is the right one.
WAIT_S_MAX = 3600.0
_USE_IN_BATCHES: Final = {
    "workers": f"give a number from 1 to {WORKERS_MAX}: each batch has a thread, and the app finds no number "
    "out, since a batch grows with what waits, and more workers make smaller batches.",
    "batch_records_max": f"use a number from 1 to {BATCH_RECORDS_MAX}.",
    "batch_bytes_max": "use a number of bytes, 1 or more, or None.",
    "wait_s_max": f"use a number of seconds from 0 to {WAIT_S_MAX:.0f}.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(HandlerSpec):
    """A handler of batches. `function` is a callable of one `Batch`."""

    batch_records_max: int = 500
    batch_bytes_max: int | None = None
    wait_s_max: float = 1.0

    argument: ClassVar[str] = "batch"
    use: ClassVar[Mapping[str, str]] = {**HandlerSpec.use, **_USE_IN_BATCHES}

    def options(self) -> dict[str, bool]:
        """Return whether each option has a value that may be."""
        bytes_max = self.batch_bytes_max
        return {
            **HandlerSpec.options(self),  # `super()` does not work in a dataclass with slots
            "workers": is_count(self.workers, WORKERS_MAX),
            "batch_records_max": is_count(self.batch_records_max, BATCH_RECORDS_MAX),
            "batch_bytes_max": bytes_max is None or is_count(bytes_max, math.inf),
            "wait_s_max": is_within(self.wait_s_max, 0.0, WAIT_S_MAX),
        }

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
        """Refuse batches that the backlog never holds: each would wait its `wait_s_max` in vain."""
        enough = self.batch_records_max
        if enough > settings.backlog_records_max:
            raise ConfigurationError(
                f"batch handler {self.name!r}: a batch waits for {enough} records, but "
                f"backlog_records_max={settings.backlog_records_max} never holds so many. Raise it, or lower "
                "batch_records_max."
            )
