"""`Processes`: how a handler that is bound by the CPU runs in processes of its own.

Pure values, checked when they are made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import made_plainly

# A process costs some 50 MB and a thread of the parent; more than this is a mistake of units.
PROCESSES_MAX = 1_000
# The permits of a batch, a byte each, must fit into a pipe that is not read yet: 16 KiB on some systems.
BATCH_RECORDS_MAX = 10_000
BATCH_BYTES_MAX = 1 << 30
BATCH_S_MAX = 10.0


@made_plainly
@dataclass(frozen=True, slots=True)
class Processes:
    """Run a handler in worker processes.

    They are started afresh (`spawn`, never a fork), so each imports the module that has the handler: in a
    program that is started as a script, guard `app.run()` by `if __name__ == "__main__":`. Raises
    `ConfigurationError` for what cannot work.

    - `count` (processes, default `None`): how many. `None`: one for each core of the machine.

    Limits of the batches in which records travel

    - `batch_records_max` (records, default `256`): a batch has no more.
    - `batch_bytes_max` (bytes, default `1 << 20`): a batch has no more, but for a single record.
    - `batch_s` (seconds, default `0.02`): a batch has as many records as take about this time: a handler
      slower than that gets one record at a time.
    """

    count: int | None = None
    batch_records_max: int = 256
    batch_bytes_max: int = 1 << 20
    batch_s: float = 0.02

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        if self.count is not None:
            _check("count", self.count, PROCESSES_MAX)
        _check("batch_records_max", self.batch_records_max, BATCH_RECORDS_MAX)
        _check("batch_bytes_max", self.batch_bytes_max, BATCH_BYTES_MAX)
        is_number = isinstance(self.batch_s, int | float) and not isinstance(self.batch_s, bool)
        if not is_number or not 0 < self.batch_s <= BATCH_S_MAX:
            raise ConfigurationError(
                f"Processes(batch_s={self.batch_s!r}): use seconds above 0 and up to {BATCH_S_MAX:g}."
            )

    @property
    def size(self) -> int:
        """How many processes there are to be."""
        return self.count or os.cpu_count() or 1


def is_nameless(thing: object) -> bool:
    """Tell whether a function can surely not be imported by its name: a lambda, or one inside another."""
    name = getattr(thing, "__qualname__", "")
    return "<lambda>" in name or "<locals>" in name


def _check(name: str, value: object, highest: int) -> None:
    if type(value) is not int or not 1 <= value <= highest:
        raise ConfigurationError(f"Processes({name}={value!r}): use a number from 1 to {highest}.")
