"""What `App(mirror=…)` takes: a store, and how often and under which name it is written. Values alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.checkpoints.mirror.owners import EVERY_S
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from ehkafka.checkpoints.stores.store import CheckpointStore

INTERVAL_S = 10.0
"""KEDA looks every 30 s by default; ten seconds keep a fall-back short without many writes."""


class MirrorChoice(Protocol):
    """A mirror as it is chosen, before anything is opened."""

    @property
    def interval_s(self) -> float:
        """The least time between two writes of a partition."""
        ...

    @property
    def namespace(self) -> str | None:
        """What stands for the broker in the blobs' names; None: the endpoint's host name."""
        ...

    def open_store(self) -> CheckpointStore:
        """Return the store, for one run. Raises `ConfigurationError`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreMirror:
    """A mirror in any store. Raises `ConfigurationError`.

    - `store` (required): a `FileStore`, a `MemoryStore`, or one of your own with the methods of
      `CheckpointStore`.
    - `interval_s` (seconds, default `10.0`): the time between two writes of a partition that moves, 0.1 s to
      a day.
    - `namespace` (default `None`): the broker's place in the blobs' names. None: the endpoint's host name.
    """

    store: CheckpointStore
    interval_s: float = INTERVAL_S
    namespace: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work. Raises `ConfigurationError`."""
        check_interval(self.interval_s, "StoreMirror")
        if isinstance(self.store, type) or not callable(getattr(self.store, "list_blobs", None)):
            raise ConfigurationError(
                f"StoreMirror(store=…): {type(self.store).__name__} is not a store: give a FileStore(…), "
                f"or an object with the methods of CheckpointStore."
            )

    def open_store(self) -> CheckpointStore:
        """Return the store that was given."""
        return self.store


def checked_choice(mirror: Any, who: str = "App") -> MirrorChoice | None:
    """Return what `App(mirror=…)`, or another's, was given. Raises `ConfigurationError`."""
    if mirror is None or (callable(getattr(mirror, "open_store", None)) and not isinstance(mirror, type)):
        chosen: MirrorChoice | None = mirror
        return chosen
    # Not its repr: a connection string may have been given in its place.
    raise ConfigurationError(
        f"{who}(mirror=…): {type(mirror).__name__} is not a mirror: give a BlobMirror(…), or a "
        f"StoreMirror(…) with your own store."
    )


def check_interval(interval_s: Any, who: str) -> None:
    """Refuse an interval that is none. Raises `ConfigurationError`."""
    is_number = isinstance(interval_s, int | float) and not isinstance(interval_s, bool)
    if not is_number or not 0.1 <= interval_s <= 86_400.0:
        raise ConfigurationError(
            f"{who}: interval_s={interval_s!r}: give the seconds between two writes of a partition, 0.1 to "
            f"86400. On Event Hubs commits are at least 1 s apart, so a shorter interval writes nothing new."
        )


def writes_per_month(partitions: int, interval_s: float) -> int:
    """Return how many writes a mirror makes in 30 days at most: checkpoints that move, and owners."""
    month_s = 30 * 86_400
    return partitions * (int(month_s / interval_s) + int(month_s / EVERY_S))
