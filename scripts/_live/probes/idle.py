"""A connection on which nothing moves: closed when, and how that shows; and an app that waits as long."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from _live.probe import CLIENT_SETTINGS, Observed, Probe, differs, noted, ok
from _live.waits import IDLE_S
from ehkafka.endpoint.properties.limits import IDLE_CONNECTION_S_MAX

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site

# Nothing of the client's own moves on its connections. librdkafka counts the age in 32 bits of microseconds:
# above 35 minutes it would ask each second.
SILENT = {
    "topic.metadata.refresh.interval.ms": 1_800_000,
    "metadata.max.age.ms": 1_800_000,
    "connections.max.idle.ms": 0,
    "socket.keepalive.enable": False,
    "enable.idempotence": False,
    "log.connection.close": True,
}
DELIVERY_S = 45.0
# An app's record after the pause must not have waited for a dead connection to be noticed.
PROMPT_S = 10.0


class _Log:
    """librdkafka's log, of which the ends of connections matter. Called in `poll`."""

    def __init__(self) -> None:
        self.ends_s: list[float] = []

    def log(self, _level: int, text: str, *arguments: Any) -> None:
        """Take a line."""
        line = text % arguments if arguments else text
        if "Disconnected" in line or "Receive failed" in line or "Send failed" in line:
            self.ends_s.append(time.monotonic())


def idle(site: Site) -> Observed:
    """Leave a producer and an app alone, then send by the one and handle in the other."""
    arrived: list[float] = []
    mark = site.ledger.run.encode() + b" idle"
    app = site.app(site.group("idle"))

    @app.handler(site.topic, workers=2)
    def handle(record: ehkafka.Record) -> None:
        if record.value() == mark:
            arrived.append(time.monotonic())

    log = _Log()
    producer = site.producer(SILENT, logger=log)
    with site.running(app):
        if not _delivered(producer, site.topic, b"before"):
            return differs("the record before the pause was not acknowledged")
        log.ends_s.clear()
        began_s = time.monotonic()
        site.wait(lambda: producer.poll(0) and False, site.waits.idle_s)
        closed_after_s = round(log.ends_s[0] - began_s, 1) if log.ends_s else None
        sent_s = time.monotonic()
        is_delivered = _delivered(producer, site.topic, mark)
        delivery_s = time.monotonic() - sent_s
        site.wait(lambda: arrived, PROMPT_S)
    facts = {
        "idle_s": site.waits.idle_s,
        "closed_after_s": closed_after_s,
        "closed_later": closed_after_s is None and bool(log.ends_s),
        "delivery_s": round(delivery_s, 2),
        "app_s": round(arrived[0] - sent_s, 2) if arrived else None,
    }
    return _judged(facts, is_delivered=is_delivered)


def _judged(facts: dict[str, Any], *, is_delivered: bool) -> Observed:
    if not is_delivered:
        return differs(f"after the pause a record was not acknowledged within {DELIVERY_S:.0f} s", **facts)
    if facts["app_s"] is None:
        return differs("the app did not handle the record after the pause", **facts)
    app = f"the app, with the engine's settings, handled a record after {facts['app_s']} s"
    if facts["closed_after_s"] is not None:
        return ok(f"closed after {facts['closed_after_s']} s, and the client was informed; {app}", **facts)
    if facts["closed_later"]:
        return noted(
            f"dropped without a word: noticed at the next record, which took {facts['delivery_s']} s; {app}",
            **facts,
        )
    return differs(f"the connection was still good after {facts['idle_s']:g} s; {app}", **facts)


def _delivered(producer: Any, topic: str, value: bytes) -> bool:
    errors: list[object] = []
    done = threading.Event()

    def on_delivery(error: object, _message: object) -> None:
        errors.append(error)
        done.set()

    producer.produce(topic, value, b"key", on_delivery=on_delivery)
    producer.flush(DELIVERY_S)
    return done.is_set() and errors == [None]


PROBES = (
    Probe(
        name="idle",
        documented=f"Azure closes connections that were idle for {IDLE_CONNECTION_S_MAX} s",
        link=CLIENT_SETTINGS,
        function=idle,
        expected_s=IDLE_S + 15.0,
        limit_s=IDLE_S + 150.0,
        records=2,
        kilobytes=1,
        creates="a group",
    ),
)
