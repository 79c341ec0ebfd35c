"""What the client library and the broker tell about the connection."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ehkafka.events.event import Event, without_numbers
from ehkafka.wording import seconds
from ehkafka.wording.line import ending, plain

if TYPE_CHECKING:
    from collections.abc import Hashable

__all__ = [
    "ClientLogged",
    "ConnectionProblem",
    "Throttled",
]


@dataclass(frozen=True, slots=True)
class ConnectionProblem(Event):
    """librdkafka reported an error of the connection or group that it may or may not fix itself."""

    level: ClassVar[int] = logging.WARNING
    code: str
    error: str
    fatal: bool

    def sentence(self) -> str:
        if self.code == "close":  # nothing is tried after it
            return f"Connection problem, close: {ending(self.error)}"
        step = (
            "The client cannot recover: fix the cause and restart."
            if self.fatal
            else "The client keeps retrying."
            if "check" in self.error  # the usual cause is reported with what to do
            else "The client keeps retrying; if this lasts, check the endpoint's address, network and "
            "credentials."
        )
        # librdkafka's errors are explained with their name in front.
        name = "" if self.error.startswith(self.code) else f", {plain(self.code)}"
        return f"Connection problem{name}: {ending(self.error)} {step}"

    def subject(self) -> Hashable:
        return (self.code, self.fatal)


@dataclass(frozen=True, slots=True)
class Throttled(Event):
    """A broker held its answers back by so much, because of a quota; empty fetches then prove nothing."""

    level: ClassVar[int] = logging.WARNING
    broker: str
    throttle_s: float

    def sentence(self) -> str:
        return (
            f"Throttled: {plain(self.broker)} delays its answers by {seconds(self.throttle_s)}. If this "
            "lasts, raise the quota (on Event Hubs: throughput units) or read, commit and send less."
        )

    def subject(self) -> Hashable:
        return self.broker


@dataclass(frozen=True, slots=True)
class ClientLogged(Event):
    """A log line of librdkafka's own. Only errors are shown by default: it fixes most of what it warns of."""

    level: ClassVar[int] = logging.DEBUG
    severity: int
    text: str

    def sentence(self) -> str:
        return f"librdkafka, {logging.getLevelName(self.severity).lower()}: {ending(self.text)}"

    def subject(self) -> Hashable:
        return without_numbers(self.text)
