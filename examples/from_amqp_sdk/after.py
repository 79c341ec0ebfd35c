"""After: the consumer of `before.py`, with ehkafka; the README next to it says what became of what.

EHKAFKA_CONNECTION_STRING='Endpoint=sb://…' ehkafka run examples/from_amqp_sdk/after.py
"""

from __future__ import annotations

import logging

import ehkafka

log = logging.getLogger("alarms")

# A group of Kafka's, not the hub's $Default. Without endpoint= the variable says where; there is no blob
# container any more.
app = ehkafka.App(group="alarms", start="earliest")


# headers="amqp", because all our producers use the AMQP SDK. With the default, "auto", Kafka producers may
# send, too, but a small number (42) can be taken for text.
@app.handler("alarms", workers=64, headers="amqp")
def handle(record: ehkafka.Record) -> None:
    home, properties = record.partition_key, record.properties
    kind, severity = properties["kind"], properties["severity"]
    room = record.json()["room"]
    log.warning("%s: %s %d in the %s", home, kind, severity, room)
    log.info("event %d of %s", record.sequence_number, record.enqueued_time)
    # No checkpoint: what has returned is committed, and never anything before it that has not.


@app.on_error
def on_error(
    kind: str, partition: ehkafka.TopicPartition | None, record: ehkafka.Record | None, error: object
) -> None:
    log.error("%s error, %s: %s", kind, record.where if record else partition or "no partition", error)
    # Returning nothing leaves the decision to on_failure=, which stops the app unless you say otherwise.
