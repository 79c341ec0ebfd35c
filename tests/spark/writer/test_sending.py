"""A task's rows reach the broker, in their order, whatever it answers, or a sentence says why not."""

from __future__ import annotations

import logging
import time
from itertools import groupby
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.errors import EndpointError
from ehkafka.spark.writer import rows, sending
from ehkafka.spark.writer.options import writer_options
from ehkafka.spark.writer.sending import KEPT, Patience, RowSender, TooLateError, write_rows
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.kit.topic_read import read_messages
from tests.kit.waiting import wait_until
from tests.spark.kept import close_idle
from tests.spark.writer.frames import frame

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ehkafka.spark.writer.options import WriterOptions

POLICY_VIOLATION = 44
THROTTLED = 89
NOT_ENOUGH_REPLICAS = 19


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """A broker with the topic `readings`, and an end to what a worker process keeps."""
    with EmbeddedBroker({"readings": 4}) as running:
        yield running
        close_idle()


def write(
    broker: EmbeddedBroker, *batches: pa.RecordBatch, topic: str | None = "readings", **more: str
) -> str | None:
    """Run a task that writes these batches as partition 3 of a frame; return what it is refused."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, **more} | ({"topic": topic} if topic else {})
    return write_rows(writer_options(given), iter(batches), partition=3, attempt=0)


def write_message_by_message(broker: EmbeddedBroker, batches: Iterator[pa.RecordBatch]) -> str | None:
    """Run a task whose requests have one message each."""
    given = {"kafka.bootstrap.servers": broker.bootstrap, "kafka.batch.num.messages": "1"}
    return write_rows(writer_options({**given, "topic": "readings"}), batches, partition=3, attempt=0)


def first_one_refused(broker: EmbeddedBroker, frames: list[list[int]], code: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of partition 1, whose first request is refused while the next ones are on the wire."""
    broker.set_rtt(0.3)
    broker.fail_next(ApiKey.PRODUCE, code, *[code] * (code == THROTTLED))
    for values in frames:
        broker.track_requests()
        count = len(values)
        yield frame(key=[b"k"] * count, value=[b"%d" % one for one in values], partition=[1] * count)
        wait_until(lambda: broker.requests(ApiKey.PRODUCE))


def numbers(count: int, *, keys: int = 7, start: int = 0) -> pa.RecordBatch:
    """Return rows with these numbers as values, each with one of so many keys."""
    values = [b"%d" % number for number in range(start, start + count)]
    return frame(key=[b"k%d" % (int(value) % keys) for value in values], value=values)


def values_by_key(broker: EmbeddedBroker, topic: str = "readings") -> dict[bytes, list[int]]:
    """Return the numbers of each key, in the order of its partition."""
    found = sorted(read_messages(broker.bootstrap, topic), key=lambda one: one.key())
    return {key: [int(one.value()) for one in group] for key, group in groupby(found, lambda one: one.key())}


def first_seen(values: list[int]) -> list[int]:
    """Return each number once, where it came first."""
    return list(dict.fromkeys(values))


def test_all_rows_are_written_in_order_by_one_client(broker: EmbeddedBroker) -> None:
    """Keys, headers and null values as given; the next task has the same client."""
    assert write(broker, numbers(2_500), numbers(10, start=2_500)) is None
    found = values_by_key(broker)
    assert found == {b"k%d" % key: list(range(key, 2_510, 7)) for key in range(7)}
    (kept,) = KEPT._idle.values()
    client = kept.producer.client
    headers = [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}]]
    broker.create_topic("other", 2)
    batch = frame(key=[None], value=[None], topic=["other"], partition=[1], headers=headers)
    assert write(broker, batch, topic=None) is None
    assert kept.producer.client is client
    (message,) = read_messages(broker.bootstrap, "other")
    assert (message.partition(), message.key(), message.value()) == (1, None, None)
    assert message.headers() == [("a", b"1"), ("b", None)]


def test_a_new_client_has_two_answers_so_that_it_asks_for_its_id_at_once(broker: EmbeddedBroker) -> None:
    """With one it would often wait half a second. Its own question for the brokers comes before."""
    broker.track_requests()
    options = writer_options({"kafka.bootstrap.servers": broker.bootstrap})
    sender = RowSender(options.endpoint.endpoint())
    try:
        sender.open("readings")
        assert [one.api_key for one in broker.requests()].count(ApiKey.METADATA) >= 3
        sender.producer.await_id()
        assert sender.producer.has_id
    finally:
        sender.producer.give_up(0.0)


def given_to(broker: EmbeddedBroker) -> WriterOptions:
    """Return the options of a task that writes to the topic."""
    return writer_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": "readings"})


@pytest.mark.parametrize("topic", ["readings", None])
def test_an_answer_that_names_no_partition_of_the_topic_is_asked_for_again(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, topic: str | None
) -> None:
    """The order of first rows hangs on it, and a row's topic exists although its leader moves."""
    reasons: list[str | None] = []

    def check(_patience: Patience, _what: str, problem: str | None = None) -> None:
        reasons.append(problem)
        broker.set_topic_error("readings", 0)

    monkeypatch.setattr(Patience, "check", check)
    broker.set_topic_error("readings", KafkaError.LEADER_NOT_AVAILABLE)
    batch = frame(key=[b"k"], value=[b"1"], **({} if topic else {"topic": ["readings"]}))
    assert write(broker, batch, topic=topic) is None
    assert "it reports no partitions of topic 'readings': LEADER_NOT_AVAILABLE" in str(reasons[0])


def test_a_topic_whose_partitions_stay_unknown_ends_the_task_with_the_reason(broker: EmbeddedBroker) -> None:
    """When the task's time is over; Spark tries it again."""
    broker.set_topic_error("readings", KafkaError.LEADER_NOT_AVAILABLE)
    with pytest.raises(EndpointError) as ended:
        write(broker, numbers(1), deliveryTimeoutMs="600")
    said = str(ended.value)
    assert said.startswith("Rows of the frame's partition 3 wait for the broker, which has written nothing")
    assert "it reports no partitions of topic 'readings': LEADER_NOT_AVAILABLE" in said
    assert "Spark tries the task again" in said


def test_a_topic_without_partitions_is_no_answer() -> None:
    """No more than an error of the topic is."""
    sender = RowSender(writer_options({"kafka.bootstrap.servers": "127.0.0.1:1"}).endpoint.endpoint())
    answer = SimpleNamespace(topics={"readings": SimpleNamespace(partitions={}, error=None)})
    client = SimpleNamespace(list_topics=lambda timeout: answer)
    sender.producer = SimpleNamespace(client=client, serve=lambda timeout_s: None)  # type: ignore[assignment]
    with pytest.raises(TooLateError, match=r"it reports no partitions of topic 'readings'\."):
        sender._partitions_of("readings")


def test_the_next_client_asks_how_many_partitions_there_are(broker: EmbeddedBroker) -> None:
    """The topic may have changed since the client before was opened."""
    sender = RowSender(given_to(broker).endpoint.endpoint())

    def batches() -> Iterator[pa.RecordBatch]:
        yield numbers(1)
        sender._partitions = {"readings": 1}
        broker.fail_next(ApiKey.PRODUCE, THROTTLED)
        yield numbers(5)

    try:
        sender.write(batches(), given_to(broker), 3)
        assert sender._firsts._counts == {"readings": 4}
    finally:
        sender.producer.give_up(0.0)


def test_a_topic_that_is_gone_ends_the_query_with_its_name(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first rows are not sent unprotected, in case it comes back."""
    monkeypatch.setattr(sending, "MISSING_S", 0.0)
    assert write(broker, numbers(1)) is None
    (kept,) = KEPT._idle.values()
    kept._known_until_s = 0.0
    broker.delete_topic("readings")
    refusal = write(broker, numbers(1))
    assert refusal is not None
    assert refusal.startswith("ehkafka.errors.TopicNotFoundError: Topic 'readings' does not exist any more.")


@pytest.mark.parametrize("code", [THROTTLED, KafkaError.NOT_LEADER_FOR_PARTITION])
def test_what_a_broker_refuses_for_now_is_sent_again_with_all_behind_it(
    broker: EmbeddedBroker, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, the order of a key stands, and its last value stays the last one."""
    monkeypatch.setattr(rows, "PORTION_ROWS", 100)
    monkeypatch.setattr(sending, "WINDOW_PORTIONS", 10)
    broker.fail_next(ApiKey.PRODUCE, code)
    assert write(broker, numbers(3_000)) is None
    for key, found in values_by_key(broker).items():
        expected = list(range(int(key[1:]), 3_000, 7))
        assert first_seen(found) == expected
        assert found[-1] == expected[-1]


@pytest.mark.parametrize(
    ("before", "frames", "code"),
    [
        (0, [[0], [1], [2]], THROTTLED),
        (1, [[0], [1], [2]], NOT_ENOUGH_REPLICAS),
        (1, [[0, 1, 2]], THROTTLED),
        (0, [[0, 1, 2]], NOT_ENOUGH_REPLICAS),
    ],
)
def test_no_row_overtakes_or_replaces_the_first_one_of_a_partition(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, before: int, frames: list[list[int]], code: int
) -> None:
    """A broker accepts any sequence number in a producer's first request to a partition.

    If librdkafka repeats that request by itself, it takes the answer to the next one as the answer to both.
    """
    monkeypatch.setitem(sending._PROPERTIES, "max.in.flight.requests.per.connection", 5)

    def batches() -> Iterator[pa.RecordBatch]:
        yield frame(key=[b"other"] * before, value=[b"0"] * before, partition=[0] * before)
        yield from first_one_refused(broker, frames, code)

    assert write_message_by_message(broker, batches()) is None
    assert values_by_key(broker)[b"k"] == [0, 1, 2]


@pytest.mark.parametrize("partitions", [4, 2, 6])
def test_first_rows_are_protected_again_in_a_topic_that_was_recreated_under_a_kept_client(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, partitions: int
) -> None:
    """Its new log accepts any sequence number, however many partitions it has now."""
    monkeypatch.setitem(sending._PROPERTIES, "max.in.flight.requests.per.connection", 5)
    before = frame(key=[None] * 4, value=[b"0"] * 4, partition=[0, 1, 2, 3])
    assert write_message_by_message(broker, iter([before])) is None
    broker.delete_topic("readings")
    broker.create_topic("readings", partitions)
    (kept,) = KEPT._idle.values()
    kept._known_until_s = 0.0
    batches = first_one_refused(broker, [[0], [1], [2]], NOT_ENOUGH_REPLICAS)
    assert write_message_by_message(broker, batches) is None
    assert values_by_key(broker)[b"k"] == [0, 1, 2]


def test_a_topic_that_has_grown_is_noticed_within_a_task(broker: EmbeddedBroker) -> None:
    """A later frame begins with the first rows of all partitions, where the client sends them, too."""
    sender = RowSender(given_to(broker).endpoint.endpoint())

    def batches() -> Iterator[pa.RecordBatch]:
        yield numbers(20)
        assert sender._firsts._counts == {"readings": 4}
        producer = sender.producer
        wait_until(lambda: not len(producer.client), meanwhile=lambda: producer.serve(0.01))
        broker.delete_topic("readings")
        broker.create_topic("readings", 6)
        sender._known_until_s = 0.0
        yield numbers(70, keys=70)

    try:
        sender.write(batches(), given_to(broker), 3)
        assert sender._firsts._counts == {"readings": 6}
        assert not any(sender._firsts._empty.values())
        found = {one.key(): one.partition() for one in read_messages(broker.bootstrap, "readings")}
        assert found == {key: sender._firsts._partition("readings", key, -1) for key in found}
        assert {*found.values()} == {*range(6)}
    finally:
        sender.producer.give_up(0.0)


def test_a_broker_that_answers_one_first_row_after_the_other_writes(broker: EmbeddedBroker) -> None:
    """All first rows together may take longer than a task waits for a broker that writes nothing."""
    assert write(broker, frame(key=[None], value=[b"0"], partition=[0])) is None
    broker.set_rtt(0.4)
    others = frame(key=[None] * 3, value=[b"1", b"2", b"3"], partition=[1, 2, 3])
    assert write(broker, others, deliveryTimeoutMs="1000") is None


def test_what_is_written_before_a_refused_row_is_not_sent_again(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a throttled broker would get the same rows each time, and no further."""
    monkeypatch.setattr(rows, "PORTION_ROWS", 10)
    broker.fail_next(ApiKey.PRODUCE, 0, 0, THROTTLED)
    large = {"kafka.batch.num.messages": "100", "kafka.linger.ms": "500"}
    assert write(broker, numbers(500, keys=1), **large) is None
    (found,) = values_by_key(broker).values()
    assert first_seen(found) == list(range(500))
    assert found[:20] == list(range(20))
    assert found.count(0) == 1


def test_a_batch_that_is_too_large_goes_in_smaller_ones(broker: EmbeddedBroker) -> None:
    """The topic's limit may be lower than the client's."""
    broker.fail_next(ApiKey.PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE)
    assert write(broker, numbers(500)) is None
    assert {key: first_seen(found) for key, found in values_by_key(broker).items()} == {
        b"k%d" % key: list(range(key, 500, 7)) for key in range(7)
    }


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "cannot be written to topic 'readings': TOPIC_AUTHORIZATION_FAILED",
        ),
        (KafkaError.INVALID_RECORD, "cannot be written to topic 'readings': INVALID_RECORD"),
        (POLICY_VIOLATION, "cannot be written to topic 'readings': POLICY_VIOLATION"),
    ],
)
def test_what_a_broker_refuses_for_good_names_the_row(broker: EmbeddedBroker, code: int, says: str) -> None:
    """The driver reports it; another attempt would be refused the same. The client is closed."""
    broker.fail_next(ApiKey.PRODUCE, code)
    refusal = write(broker, frame(key=[b"a"], value=[b"1"]))
    assert refusal is not None
    assert refusal.startswith(f"ehkafka.errors.EndpointError: Row 1 of the frame's partition 3 {says}")
    assert not KEPT._idle


def test_a_row_that_is_too_large_for_the_broker_alone_is_named(broker: EmbeddedBroker) -> None:
    """When each message goes alone, the refused one is known by its value."""
    broker.fail_next(ApiKey.PRODUCE, *[KafkaError.MSG_SIZE_TOO_LARGE] * 6)
    refusal = write(broker, numbers(3, keys=1))
    assert refusal is not None
    assert "Row 1 of the frame's partition 3 cannot be written to topic 'readings': MSG_SIZE" in refusal


def test_an_outage_is_waited_for_and_said(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task ends with an error that Spark may try again once the broker wrote nothing for the time given."""
    monkeypatch.setattr("ehkafka.spark.writer.sending.LINE_S", 0.2)
    assert write(broker, numbers(1)) is None
    broker.take_down()
    with (
        caplog.at_level(logging.WARNING, "ehkafka.spark.writer"),
        pytest.raises(
            EndpointError, match=r"1 row of the frame's partition 3 waits for the broker, which has"
        ),
    ):
        write(broker, numbers(1), deliveryTimeoutMs="1500")
    said = [one.getMessage() for one in caplog.records]
    assert any("which has written nothing for" in one and "_TRANSPORT" in one for one in said), said


def test_rows_that_come_late_are_not_the_brokers_delay(broker: EmbeddedBroker) -> None:
    """A connection that broke while no row waited is one more thing that the client has to say."""
    late = {"deliveryTimeoutMs": "3000", "kafka.reconnect.backoff.max.ms": "100"}

    def batches() -> Iterator[pa.RecordBatch]:
        broker.take_down()
        time.sleep(4)
        broker.bring_up()
        time.sleep(0.5)
        yield numbers(3)

    assert write(broker, numbers(1), **late) is None
    options = writer_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": "readings", **late})
    assert write_rows(options, batches(), partition=3, attempt=0) is None


def test_a_worker_that_was_idle_waits_as_long_as_any(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the client reports just as a task begins is none of the task's rows, and its wait begins anew."""
    assert write(broker, numbers(1)) is None
    (kept,) = KEPT._idle.values()
    producer, serve = kept.producer, kept.producer.serve
    broker.take_down()
    wait_until(lambda: len(producer.client))
    broker.bring_up()
    kept._patience._moved_s -= 3_600
    late = iter([True])
    monkeypatch.setattr(producer, "serve", lambda timeout_s: next(late, False) or serve(timeout_s))
    assert write(broker, numbers(1)) is None


def test_a_second_attempt_says_that_rows_may_be_there_twice(
    broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """At least once: Spark repeats a failed task."""
    options = writer_options({"kafka.bootstrap.servers": broker.bootstrap, "topic": "readings"})
    write_rows(options, iter([numbers(1)]), partition=3, attempt=1)
    assert "Attempt 2 for the frame's partition 3" in caplog.text


def test_an_endpoint_that_cannot_be_made_on_an_executor_is_no_reason_to_try_again() -> None:
    """The driver's sentence names the variable."""
    options: Any = writer_options({"connectionStringEnv": "NOT_HERE"})
    refusal = write_rows(options, iter([numbers(1)]), partition=0, attempt=0)
    assert refusal is not None
    assert "the variable NOT_HERE is not set" in refusal
