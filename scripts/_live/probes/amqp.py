"""Events of an AMQP producer, read by Kafka: properties as headers in AMQP's encoding, the partition key."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from _live.probe import DOCS, NotTried, Observed, Probe, differs, ok
from ehkafka.endpoint.entra.credential import build_credential
from ehkafka.endpoint.entra.namespace import EntraNamespace

if TYPE_CHECKING:
    import ehkafka
    from _live.site import Site

PROPERTIES: dict[Any, Any] = {"text": "Türe", "number": 70_000, "flag": True, "part": 2.5}
PARTITION_KEY = "home-1"
MESSAGE_ID = "message-1"
LIMIT_S = 40.0


def amqp(site: Site) -> Observed:
    """Send one event by AMQP, and read it with an app."""
    body = site.ledger.run.encode() + b" amqp"
    seen: list[ehkafka.Record] = []
    arrived = threading.Event()
    app = site.app(site.group("amqp"))

    @app.handler(site.topic, workers=4)
    def handle(record: ehkafka.Record) -> None:
        if record.value() == body:
            seen.append(record)
            arrived.set()

    with site.running(app):
        send(site, body)
        site.wait(arrived.is_set, LIMIT_S)
    if not seen:
        return differs(f"an event sent by AMQP was not read by Kafka within {LIMIT_S:.0f} s")
    record = seen[0]
    facts = {
        "headers": [[name, (value or b"").hex()] for name, value in record.headers() or []],
        "key": None if record.key() is None else (record.key() or b"").hex(),
        "partition_key": str(record.partition_key),
    }
    found = {name: record.properties.get(name) for name in PROPERTIES}
    if found != PROPERTIES:
        return differs(f"properties are decoded as {found}", **facts)
    if record.partition_key != PARTITION_KEY:
        return differs(f"the partition key is {record.partition_key!r:.60}", **facts)
    return ok(f"{len(PROPERTIES)} properties of other types and the partition key are decoded", **facts)


def send(site: Site, body: bytes) -> None:
    """Send the event. Raises `NotTried` where that cannot be done."""
    if site.given.is_led_elsewhere:
        raise NotTried("the Kafka clients are led to another address, which AMQP does not follow")
    try:
        from azure.eventhub import EventData, EventHubProducerClient  # noqa: PLC0415 - may be missing
    except ImportError:
        raise NotTried("azure-eventhub is not installed: pip install azure-eventhub") from None
    event = EventData(body)
    event.properties = dict(PROPERTIES)
    event.message_id = MESSAGE_ID
    options: dict[str, Any] = {"eventhub_name": site.topic, "logging_enable": False, "retry_total": 1}
    if site.given.string is not None:
        client = EventHubProducerClient.from_connection_string(site.given.string.reveal(), **options)
    else:
        authority = EntraNamespace.parse(site.given.namespace).authority
        credential = build_credential(site.given.credential or "default", site.given.client_id, authority)
        site.closed_at_the_end(credential.close)
        client = EventHubProducerClient(site.given.namespace, credential=credential, **options)
    with client:
        batch = client.create_batch(partition_key=PARTITION_KEY)
        batch.add(event)
        client.send_batch(batch)


PROBES = (
    Probe(
        name="amqp",
        documented="Properties of AMQP events are headers in AMQP's encoding, the body is the value",
        link=f"{DOCS}/event-hubs-exchange-events-different-protocols",
        function=amqp,
        expected_s=15.0,
        limit_s=90.0,
        records=1,
        kilobytes=1,
        creates="a group",
    ),
)
