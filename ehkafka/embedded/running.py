"""The addresses of the embedded brokers that run in this process.

Whatever is given one, and not the endpoint of the broker itself, finds out here that it is no Apache Kafka.
Any thread.
"""

from __future__ import annotations

from typing import Final

_ADDRESSES: Final[set[str]] = set()


def note_started(bootstrap: str) -> None:
    """Take up the addresses of a cluster, `host:port` joined by commas."""
    _ADDRESSES.update(bootstrap.split(","))


def note_ended(bootstrap: str) -> None:
    """Forget them: the ports may be another server's next."""
    _ADDRESSES.difference_update(bootstrap.split(","))


def is_running(bootstrap: str) -> bool:
    """Tell whether one of these addresses is an embedded broker's."""
    return not _ADDRESSES.isdisjoint(bootstrap.split(","))
