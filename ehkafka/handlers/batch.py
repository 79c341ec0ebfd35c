"""Batch handlers: what `App.batch_handler` was given, checked. Values, read when the app starts.

As `spec`, which is for handlers of one record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.spec import WORKERS_MAX, HandlerSpec
from ehkafka.workers.batches.taking import BatchLimits

if TYPE_CHECKING:
    from ehkafka.settings import Settings

# More than any backlog that is worth its memory.
BATCH_RECORDS_MAX = 1_000_000
# Whoever wants to wait longer for a batch wants another tool.
WAIT_S_MAX = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpec(HandlerSpec):
    """A handler of batches. `function` is a callable of one `Batch`."""

    batch_records_max: int = 500
    batch_bytes_max: int | None = None
    wait_s_max: float = 1.0

    argument: ClassVar[str] = "batch"

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        HandlerSpec.__post_init__(self)  # `super()` does not work in a dataclass with slots
        where = f"batch handler {self.name!r}"
        if self.is_class:
            raise ConfigurationError(
                f"{where}: it is a class, which gets one instance per partition, but a batch has records of "
                "several: give a function, or an instance with __call__(batch)."
            )
        if self.auto is not None:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; give a number: a batch grows with what waits, so more "
                "workers make smaller batches, and nothing tells which are better."
            )
        if type(self.workers) is not int or self.workers > WORKERS_MAX:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; use a number from 1 to {WORKERS_MAX}: each batch has a "
                "thread."
            )
        most = self.batch_records_max
        if not _is_count(most, BATCH_RECORDS_MAX):
            raise ConfigurationError(
                f"{where}: batch_records_max={most!r}; use a number from 1 to {BATCH_RECORDS_MAX}."
            )
        self._check_rest(where)

    def _check_rest(self, where: str) -> None:
        if self.batch_bytes_max is not None and not _is_count(self.batch_bytes_max, math.inf):
            raise ConfigurationError(
                f"{where}: batch_bytes_max={self.batch_bytes_max!r}; "
                "use a number of bytes, 1 or more, or None."
            )
        wait_s = self.wait_s_max
        if (
            isinstance(wait_s, bool)
            or not isinstance(wait_s, int | float)
            or not (math.isfinite(wait_s) and 0 <= wait_s <= WAIT_S_MAX)
        ):
            raise ConfigurationError(
                f"{where}: wait_s_max={wait_s!r}; use a number of seconds from 0 to {WAIT_S_MAX:.0f}."
            )

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


def _is_count(value: object, most: float) -> bool:
    return type(value) is int and 1 <= value <= most
