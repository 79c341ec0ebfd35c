"""How a query of the engine runs: what `App.run_on_spark` is given, checked. Pure values."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

# Seconds of work for a handler of microseconds, and what a failure repeats.
BATCH_RECORDS_MAX = 200_000
# At 0 an idle query would ask the broker a hundred times a second.
INTERVAL_S = 0.2
# Options of the source that the engine sets, or that would change what its tasks get.
_OWNED = {
    "subscribe", "assign", "groupid", "maxoffsetspertrigger", "failondataloss", "splitpartitions",
    "includeheaders", "columns",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChoices:
    """What `App.run_on_spark` takes: it has the words. Raises `ConfigurationError` for what cannot work."""

    checkpoint: str | os.PathLike[str] | None = None
    new_checkpoint: bool = False
    available_now: bool = False
    interval_s: float | None = None
    max_records_per_batch: int = BATCH_RECORDS_MAX
    source_options: Mapping[str, str] | None = None
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if type(self.max_records_per_batch) is not int or self.max_records_per_batch < 1:
            raise ConfigurationError(
                f"max_records_per_batch={self.max_records_per_batch!r}: give a number of records, 1 or more."
            )
        interval_s = self.interval_s
        is_number = isinstance(interval_s, int | float) and not isinstance(interval_s, bool)
        if interval_s is not None and (not is_number or not 0 <= interval_s < 86_400):
            raise ConfigurationError(
                f"interval_s={self.interval_s!r}: give the seconds between two batches, 0 or more."
            )
        if self.available_now and self.interval_s is not None:
            raise ConfigurationError("available_now and interval_s exclude each other: leave one out.")
        if self.new_checkpoint and self.checkpoint is None:
            raise ConfigurationError(
                "new_checkpoint needs checkpoint=: without one each start begins where the group stands "
                "anyway."
            )
        for name in self.source_options or ():
            if name.lower() in _OWNED or name.lower().startswith(("starting", "ending")):
                raise ConfigurationError(
                    f"source_options: {name} is the engine's own; the app and the other arguments say what "
                    "it is. Leave it out."
                )
        self._check_checkpoint()

    def _check_checkpoint(self) -> None:
        if self.checkpoint is None:
            return
        if not isinstance(self.checkpoint, str | os.PathLike) or isinstance(
            os.fspath(self.checkpoint), bytes
        ):
            raise ConfigurationError(
                f"checkpoint={self.checkpoint!r}: give a folder as text or as a path, or leave it out."
            )
        if not os.fspath(self.checkpoint).strip():
            raise ConfigurationError("checkpoint is empty: give a folder, or leave it out.")

    @property
    def checkpoint_folder(self) -> str | None:
        """The checkpoint's folder as text."""
        return None if self.checkpoint is None else os.fspath(self.checkpoint)
