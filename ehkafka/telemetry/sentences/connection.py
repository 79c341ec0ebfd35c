"""How the events of the connection read."""

from __future__ import annotations

import logging

from ehkafka.events.connection import ClientLogged, ConnectionProblem, Throttled
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import ended, text
from ehkafka.wording import seconds


@sentence.register
def _(event: Throttled) -> str:
    return (
        f"Throttled: {text(event.broker)} holds answers back by {seconds(event.throttle_s)}. If it lasts, "
        f"raise the quota (on Event Hubs: throughput units) or read and commit less."
    )


@sentence.register
def _(event: ConnectionProblem) -> str:
    if event.code == "close":  # nothing is tried after it
        return f"Connection problem, close: {ended(event.error)}"
    step = (
        "The client cannot go on: fix the cause and restart."
        if event.fatal
        else "The client goes on trying by itself."
        if "check" in event.error  # the usual cause is reported with what to do
        else "The client goes on trying; if it lasts, check the endpoint's address, network and credentials."
    )
    # librdkafka's errors are explained with their name in front.
    name = "" if event.error.startswith(event.code) else f", {text(event.code)}"
    return f"Connection problem{name}: {ended(event.error)} {step}"


@sentence.register
def _(event: ClientLogged) -> str:
    return f"librdkafka, {logging.getLevelName(event.severity).lower()}: {ended(event.text)}"
