"""What the client library and the broker tell about the connection."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from ehkafka.events.event import Event


@dataclass(frozen=True, slots=True)
class ConnectionProblem(Event):
    """librdkafka reported an error of the connection or group that it may or may not fix itself."""

    level: ClassVar[int] = logging.WARNING
    code: str
    error: str
    fatal: bool


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """A broker held its answers back by so much, because of a quota; empty fetches then prove nothing."""

    level: ClassVar[int] = logging.WARNING
    broker: str
    throttle_s: float


@dataclass(frozen=True, slots=True)
class ClientLogged(Event):
    """A log line of librdkafka's own. Only errors are shown by default: it fixes most of what it warns of."""

    level: ClassVar[int] = logging.DEBUG
    severity: int
    text: str
