"""A record that nothing gets past is skipped from outside, on Apache Kafka, whatever the log holds."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

import ehkafka
from ehkafka.embedded.topics import produce
from tests.kit.waiting import wait_until
from tests.offsets.test_moving_real import Group

if TYPE_CHECKING:
    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

RECORDS = 40


@pytest.fixture
def group(kafka: KafkaBroker) -> Group:
    """Return a topic of one partition, without records, and a group of its own."""
    made = Group(kafka.bootstrap)
    kafka.create_topic(made.topic, 1)
    return made


def skip(group: Group, where: str, *options: str) -> tuple[int, str, str]:
    """Skip without a watch."""
    return group.run("offsets", "skip", f"{group.topic}/0@{where}", "--watch-for", "0", *options)


class Run:
    """An app whose handler never returns from the calls for these offsets, while it lives."""

    def __init__(self, group: Group, *stuck: int) -> None:
        self.started: list[int] = []
        self._freed = threading.Event()
        endpoint = ehkafka.Endpoint.kafka(group.bootstrap)
        options: dict[str, Any] = {"start": "earliest", "commit_interval_s": 0.1}
        self.app = ehkafka.App(group=group.name, endpoint=endpoint, **options)

        @self.app.handler(group.topic, workers=4)
        def handle(record: ehkafka.Record) -> None:
            self.started.append(record.offset())
            if record.offset() in stuck:
                self._freed.wait()

        self.app.start()

    def end(self) -> None:
        """Stop as a process does that is killed: what hangs is left."""
        with pytest.raises(ehkafka.errors.UnfinishedError):
            self.app.stop(drain="running", timeout_s=0.3)
        self._freed.set()


def test_a_record_that_hangs_at_each_start_is_got_past_and_nothing_is_repeated(group: Group) -> None:
    """Refused while the group lives; then the commit moves over all that was finished behind the record."""
    produce(group.bootstrap, group.topic, [(b"k%d" % number, b"v") for number in range(RECORDS)])
    first = Run(group, 3, 20)
    wait_until(lambda: len(first.started) == RECORDS, timeout_s=30.0)
    wait_until(lambda: "35 finished above" in group.run("lag", group.topic)[1])
    assert skip(group, "3", "--yes")[0] == 5
    first.end()
    preview = group.run("offsets", "reset", group.topic, "--to", "1")[1]
    assert "2 again; repeats 35 that finished out of order" in preview
    code, text, error = skip(group, "3")
    assert (code, group.committed()) == (0, {0: 3}), error
    assert "skips 17, 16 of them finished already; record @3 key k3, " in text
    assert skip(group, "3", "--yes")[0] == 0
    assert group.committed() == {0: 20}
    second = Run(group, 20)
    wait_until(lambda: bool(second.started), timeout_s=30.0)
    second.end()
    assert second.started == [20]
    # As the log writes it.
    code, _, error = group.run("offsets", "skip", f"{group.topic}[0]@20", "--watch-for", "0", "--yes")
    assert (code, group.committed()) == (0, {0: RECORDS}), error
    assert "passed already: the commit is 40" in skip(group, "20")[1]


def test_an_offset_that_no_record_has_is_refused(group: Group) -> None:
    """A transaction's mark is no record to handle, nor is a record of an aborted or an open transaction."""
    properties = {"bootstrap.servers": group.bootstrap, "transactional.id": uuid.uuid4().hex}
    producer = Producer(properties)
    producer.init_transactions(20.0)
    for ends in (producer.commit_transaction, producer.abort_transaction, producer.flush):
        producer.begin_transaction()
        producer.produce(group.topic, b"v", b"k")
        producer.flush(20.0)
        ends(20.0)
        if ends == producer.abort_transaction:
            produce(group.bootstrap, group.topic, [(b"plain", b"v")])
    # 0 committed, 1 its mark, 2 aborted, 3 its mark, 4 plain, 5 in a transaction that is open.
    group.reset("--to", "0")
    for hole in ("1", "2", "3"):
        code, _, error = skip(group, hole)
        assert code == 3
        assert "compaction removed the record. The next record is at offset 4." in error
    assert "the log ends at 5, so no readable record" in skip(group, "5")[2]
    producer.abort_transaction(20.0)
    wait_until(lambda: "No later record exists yet." in skip(group, "5")[2])
    # In a range they are passed with all others.
    assert skip(group, "0-3", "--yes")[0] == 0
    assert group.committed() == {0: 4}
