"""Exactly once: an app that tries a transaction at its start, handles records in them, and one reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import KafkaError

from _live.probe import DOCS, NotTried, Observed, Probe, differs, ok
from ehkafka.errors import EhkafkaError
from ehkafka.transactions.probe import SUFFIX

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site

COUNT = 50
LIMIT_S = 40.0


def transactions(site: Site) -> Observed:
    """Send each record's output in a transaction, and read what is committed."""
    if site.given.own_topic is not None:
        raise NotTried("it needs topics of its own, and with --topic none is created")
    source, out = site.create_topic("source"), site.create_topic("out")
    group = site.group("exactly-once")
    site.group(f"exactly-once{SUFFIX}")
    app = site.app(group, exactly_once="preview")

    @app.handler(source, workers=4, to=out)
    def handle(record: ehkafka.Record) -> bytes | None:
        return record.value()

    try:
        with site.running(app):
            site.produce(source, [(b"key-%d" % (number % 5), b"%d" % number) for number in range(COUNT)])
            values, is_whole = _read(site, out)
    except EhkafkaError as error:
        text = f"an app cannot send exactly once here: {error}"
        return ok(text) if site.given.tier == "standard" else differs(text)
    if not is_whole or len(set(values)) != len(values):
        return differs(
            f"{len(set(values))} of {COUNT} outputs were seen within {LIMIT_S:.0f} s, {len(values)} times"
        )
    text = f"{COUNT} outputs, each seen once by a reader of committed records"
    return differs(text) if site.given.tier == "standard" else ok(text)


def _read(site: Site, topic: str) -> tuple[list[bytes], bool]:
    reader = site.consumer(
        site.group("reader"), {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    reader.subscribe([topic])
    values: list[bytes] = []

    def has_all() -> bool:
        for message in reader.consume(COUNT, 0.1):
            error = message.error()
            if error is None:
                values.append(message.value() or b"")
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise NotTried("the topic of the outputs is gone")
        return len(set(values)) >= COUNT

    is_whole = site.wait(has_all, LIMIT_S)
    reader.close()
    return values, is_whole


PROBES = (
    Probe(
        name="transactions",
        documented="Kafka transactions are in public preview on Premium and Dedicated",
        link=f"{DOCS}/apache-kafka-transactions",
        function=transactions,
        expected_s=20.0,
        limit_s=120.0,
        records=2 * COUNT,
        kilobytes=10,
        creates="two topics and three groups",
    ),
)
