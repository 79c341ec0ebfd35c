"""Events of the connection, as the client library and the broker report them."""

from __future__ import annotations

import logging
from logging import DEBUG, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event, without_numbers
from ehkafka.wording import seconds
from ehkafka.wording.line import ending, plain

if TYPE_CHECKING:
    from collections.abc import Hashable


class ConnectionProblem(Event, level=WARNING, subject=("code", "fatal")):
    """librdkafka reported an error of the connection or the group. `fatal`: librdkafka cannot recover."""

    code: str
    error: str
    fatal: bool

    def sentence(self) -> str:
        if self.code == "close":  # nothing is tried after it
            return f"Connection problem, close: {ending(self.error)}"
        step = (
            "The client cannot recover: fix the cause, then restart the program."
            if self.fatal
            else "The client keeps retrying."
            if "check" in self.error  # the usual cause is reported with what to do
            else "The client keeps retrying. If the problem lasts, check the endpoint's address, network "
            "and credentials."
        )
        # librdkafka's errors are explained with their name in front.
        name = "" if self.error.startswith(self.code) else f", {plain(self.code)}"
        return f"Connection problem{name}: {ending(self.error)} {step}"


class Throttled(Event, level=WARNING, subject="broker"):
    """A broker delayed its answers by `throttle_s`, because of a quota."""

    broker: str
    throttle_s: float

    def sentence(self) -> str:
        return (
            f"Throttled: {plain(self.broker)} delays its answers by {seconds(self.throttle_s)}. If the "
            "delays last, raise the quota (on Event Hubs: throughput units) or read, commit and send less."
        )


class ClientLogged(Event, level=DEBUG):
    """A log line of librdkafka. By default only errors are shown, because librdkafka fixes most problems."""

    severity: int
    text: str

    def sentence(self) -> str:
        return f"librdkafka, {logging.getLevelName(self.severity).lower()}: {ending(self.text)}"

    def subject(self) -> Hashable:
        return without_numbers(self.text)
