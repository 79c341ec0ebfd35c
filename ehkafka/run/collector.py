"""Python's garbage collector set for the time of a run, and as it was afterwards.

It belongs to the whole process, so only who has the process may ask for it: `App.run`, never `start`, which
other programs embed. Called by the thread that runs the app; collects once, before the objects are frozen.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager


def collector_set(*, freeze: bool, threshold: int | None) -> AbstractContextManager[None]:
    """Return what sets the collector while it is entered. Raises `ConfigurationError` for a threshold < 1."""
    if threshold is not None and (type(threshold) is not int or threshold < 1):
        raise ConfigurationError(
            f"gc_threshold={threshold!r:.80}: it is the number of new objects after which Python looks for "
            "cycles, 1 or more (Python's own is 700); None leaves it as it is."
        )
    return _set(freeze=freeze, threshold=threshold)


@contextmanager
def _set(*, freeze: bool, threshold: int | None) -> Iterator[None]:
    before = gc.get_threshold()
    chosen = before if threshold is None else (threshold, *before[1:])
    # What somebody else has frozen, a forking server perhaps, looks the same later: it stays frozen.
    thaw = freeze and gc.get_freeze_count() == 0
    gc.set_threshold(*chosen)
    if freeze:
        gc.collect()  # else garbage would be kept as well
        gc.freeze()
    try:
        yield
    finally:
        if thaw:
            gc.unfreeze()
        if gc.get_threshold() == chosen:  # else the app's own code has set it meanwhile
            gc.set_threshold(*before)
