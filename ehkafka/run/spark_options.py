"""The checked arguments of `App.run_on_spark`. Pure values; the room of Spark is not loaded for them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError
from ehkafka.settings.option import check_options, option

if TYPE_CHECKING:
    from collections.abc import Mapping

# At 0 an idle query would ask the broker a hundred times a second.
INTERVAL_S = 0.2
# Options of the source that the engine sets, or that would change what its tasks get.
_OWNED = {
    "subscribe", "subscribepattern", "assign", "groupid", "failondataloss", "splitpartitions",
    "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay", "includeheaders", "columns",
    "commitoffsets",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOptions:
    """How a query of the engine runs. Raises `ConfigurationError` for what cannot work."""

    checkpoint: str | os.PathLike[str] | None = option(
        None,
        "a folder that the driver can write to. `None`: each start begins at the group's commits.",
        section="Positions",
        fits=lambda path: isinstance(path, str | os.PathLike) and isinstance(os.fspath(path), str),
        use="give a folder as text or as a path, or leave it out.",
    )
    new_checkpoint: bool = option(
        False, "begin at the group's commits, although the checkpoint has other positions."
    )
    available_now: bool = option(False, "end when what is there at the start is handled.", section="Pace")
    interval_s: float | None = option(
        None,
        "time from the start of one batch to the next. `None`: 0.2 s.",
        least=0,
        most=86_400,
        use="give the seconds between two batches, 0 or more.",
    )
    # Seconds of work for a handler of microseconds, and what a failure repeats.
    max_records_per_batch: int = option(
        200_000, "a batch takes no more.", least=1, use="give a number of records, 1 or more."
    )
    source_options: Mapping[str, str] | None = option(
        None, 'options of `format("ehkafka")`, such as `bootstrap`.', section="Source"
    )
    folders: tuple[str, ...] = option((), "where executors on this machine look for modules.")

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        check_options(self)
        if self.available_now and self.interval_s is not None:
            raise ConfigurationError("available_now and interval_s exclude each other: leave one out.")
        if self.new_checkpoint and self.checkpoint is None:
            raise ConfigurationError(
                "new_checkpoint needs checkpoint=: without a checkpoint each start begins at the group's "
                "commits anyway."
            )
        for name in self.source_options or ():
            if name.lower() in _OWNED or name.lower().startswith(("starting", "ending")):
                raise ConfigurationError(
                    f"source_options: {name} cannot be set, because ehkafka sets it from the app and the "
                    f"other arguments. Leave it out."
                )
        if self.checkpoint_folder is not None and not self.checkpoint_folder.strip():
            raise ConfigurationError("checkpoint is empty: give a folder, or leave it out.")

    @property
    def checkpoint_folder(self) -> str | None:
        """The checkpoint's folder as text."""
        return None if self.checkpoint is None else os.fspath(self.checkpoint)
