"""How bad the network is that a `TcpProxy` makes. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ehkafka.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Network:
    """How bad the network is; a pair is the least and the most of what is drawn at random.

    `latency_s` is drawn for every chunk in either direction (a round trip has two). `bytes_per_s` bounds
    each direction of each connection. `slice_bytes` tears what is sent into segments of that size.
    `idle_close_s` closes a connection on which nothing was sent for so long, `life_s` every one after
    that long; the life is drawn when the connection is made. With `refuse` new connections are reset,
    with `black_hole` nothing passes and nothing closes; what was sent meanwhile comes when it is over.
    """

    latency_s: tuple[float, float] = (0.0, 0.0)
    bytes_per_s: float | None = None
    slice_bytes: tuple[int, int] | None = None
    idle_close_s: float | None = None
    life_s: tuple[float, float] | None = None
    refuse: bool = False
    black_hole: bool = False

    def __post_init__(self) -> None:
        """Refuse what no network does."""
        for name in ("latency_s", "slice_bytes", "life_s"):
            pair = getattr(self, name)
            if pair is not None and not 0 <= pair[0] <= pair[1]:
                raise ConfigurationError(f"{name}={pair}: give the least, not negative, and then the most.")
        if self.slice_bytes is not None and self.slice_bytes[0] < 1:
            raise ConfigurationError(f"slice_bytes={self.slice_bytes}: a slice has at least 1 byte.")
        for name in ("bytes_per_s", "idle_close_s"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ConfigurationError(f"{name}={value}: it must be above 0, or None for no limit.")


CALM: Final = Network()
