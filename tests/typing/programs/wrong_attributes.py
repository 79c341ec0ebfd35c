"""Attributes that are not there, and values that may be missing: each marked line is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ehkafka

if TYPE_CHECKING:
    from ehkafka.events import CommitAcknowledgement  # error


def of_record(record: ehkafka.Record) -> None:
    record.set_value(b"")
    record.set_valu(b"")  # error
    print(record.offset() + 1)
    print(record.ofset())  # error
    print(record.offset + 1)  # error
    print(record.key().decode())  # error
    print(record.value().decode())  # error
    print(record.enqueued_time.isoformat())  # error
    print(record.message.offest())  # error
    print(record.header("kind").decode())  # error
    record.defer(deadline=3)  # error
    record.defer().finnish()  # error
    record.attempt = "2"  # error


def of_batch(batch: ehkafka.Batch) -> None:
    batch.fail(batch[0], "too late")  # error
    batch.fial(batch[0], ValueError())  # error
    batch[0].atempt  # error
    for record in batch:
        print(record.jsn())  # error


def of_app(app: ehkafka.App) -> None:
    print(app.health().ok)
    print(app.health().okay)  # error
    print(app.snapshot().lagg)  # error
    app.starts()  # error


def of_endpoint(endpoint: ehkafka.Endpoint) -> None:
    endpoint.kind = "kafka"  # error
    print(endpoint.nam)  # error


ehkafka.SkipRecord()  # error
ehkafka.RetryLater("1 s")  # error
ehkafka.TopicPartition("readings")  # error
