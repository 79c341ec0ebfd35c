"""Readers in tasks, as plain objects on an embedded broker: no JVM."""

from __future__ import annotations

import gc
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, Message

from ehkafka.embedded.requests import ApiKey
from ehkafka.errors import EndpointError, OffsetGapError
from ehkafka.ranges import reading
from ehkafka.ranges.client import OpenConsumer
from ehkafka.ranges.places import Piece
from ehkafka.spark.source import consumers
from ehkafka.spark.source.consumers import messages
from tests.kit.broken_batches import broken_batch, write_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ehkafka.spark.source.options import SourceOptions
    from ehkafka.testing import EmbeddedBroker


def _produce(broker: EmbeddedBroker, count: int, partition: int = 0, size_bytes: int = 1) -> None:
    broker.produce(
        "readings",
        [(b"k%d" % number, b"%d" % number + b"." * size_bytes) for number in range(count)],
        partition=partition,
    )


def _read(options: SourceOptions, pieces: Sequence[Piece]) -> dict[tuple[int, int], list[int]]:
    """Return the offsets read of each piece, by partition and start."""
    found: dict[tuple[int, int], list[int]] = {(piece.partition, piece.start): [] for piece in pieces}
    for piece, records in messages(options, pieces):
        assert {record.partition() for record in records} <= {piece.partition}
        found[piece.partition, piece.start] += [record.offset() or 0 for record in records]
    return found


def test_pieces_are_read_from_start_to_end_in_order(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """Each piece has its own offsets, in order, and nothing of what lies around it."""
    _produce(broker, 500, 0)
    _produce(broker, 300, 1)
    pieces = [Piece("readings", 0, 100, 450), Piece("readings", 1, 0, 300)]
    assert _read(options(), pieces) == {(0, 100): list(range(100, 450)), (1, 0): list(range(300))}


@pytest.mark.parametrize("what", ["checksum", "compression", "codec", "format"])
def test_a_batch_that_cannot_be_read_fails_the_task_at_its_place(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions], what: str
) -> None:
    """At once, and before anything behind it is handed on."""
    _produce(broker, 5, 0)
    write_batch(broker, "readings", broken_batch(what, 1))
    _produce(broker, 5, 0)
    read: list[int] = []
    with pytest.raises(EndpointError, match=r"The batch at readings\[0\]@5 cannot be read"):
        read.extend(
            one.offset() or 0
            for _piece, found in messages(options(), [Piece("readings", 0, 0, 11)])
            for one in found
        )
    assert max(read, default=0) < 5


def test_several_pieces_of_one_partition_are_read_one_after_the_other(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """A cut partition may have two pieces in one task."""
    _produce(broker, 500, 0)
    pieces = [Piece("readings", 0, 10, 20), Piece("readings", 0, 100, 200), Piece("readings", 0, 499, 500)]
    assert _read(options(), pieces) == {
        (0, 10): list(range(10, 20)),
        (0, 100): list(range(100, 200)),
        (0, 499): [499],
    }


class Scripted:
    """A consumer that hands over lists as they were written down, then nothing."""

    def __init__(self, *lists: list[Message]) -> None:
        self._lists = list(lists)

    def consume(self, _count: int, _timeout_s: float) -> list[Message]:
        """Return the next list."""
        return self._lists.pop(0) if self._lists else []

    def assign(self, _partitions: object) -> None:
        """Hear where to begin."""

    incremental_unassign = assign


@pytest.fixture
def scripted(options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what reads pieces out of scripted lists: the offsets of each list that comes of them."""

    def read(
        pieces: Sequence[Piece],
        *lists: list[Message],
        each: Callable[[list[Message]], list[Message]] = list,
    ) -> list[tuple[int, list[int | None]]]:
        lent = OpenConsumer(Scripted(*lists))  # type: ignore[arg-type]
        monkeypatch.setattr(consumers, "borrowed", lambda _options: nullcontext(lent))
        quick = options(**{"kafkaConsumer.pollTimeoutMs": "1000"})
        return [
            (piece.partition, [one.offset() for one in each(records)])
            for piece, records in messages(quick, pieces)
        ]

    return read


def _record(partition: int, offset: int) -> Message:
    return Message(topic="readings", partition=partition, offset=offset, value=b"v")


def test_what_lies_behind_the_end_is_left_out(scripted: Callable[..., Any]) -> None:
    """One call hands over what comes, records behind a piece's end too; later ones are dropped."""
    pieces = [Piece("readings", 0, 0, 3), Piece("readings", 1, 0, 2)]
    mixed = [*(_record(0, offset) for offset in range(5)), _record(1, 0), _record(0, 5)]
    assert scripted(pieces, mixed, [_record(0, 6), _record(1, 1)]) == [(0, [0, 1, 2]), (1, [0]), (1, [1])]


def test_a_record_behind_a_hole_ends_a_piece(scripted: Callable[..., Any]) -> None:
    """A compacted log may have nothing at the end of a piece but what lies behind it."""
    assert scripted([Piece("readings", 0, 0, 5)], [_record(0, 1), _record(0, 9)]) == [(0, [1])]
    assert scripted([Piece("readings", 0, 0, 5)], [_record(0, 9)]) == []


def test_the_end_of_the_log_ends_a_piece(scripted: Callable[..., Any]) -> None:
    """Behind the last record may be control records alone: the client tells that the log ends."""
    end = Message(topic="readings", partition=0, offset=5, error=KafkaError(KafkaError._PARTITION_EOF))
    assert scripted([Piece("readings", 0, 0, 5)], [_record(0, 1), end]) == [(0, [1])]


def test_a_reader_gets_turns_while_no_record_arrives(scripted: Callable[..., Any]) -> None:
    """A reading that waits for the broker gives empty lists: a task looks at its handlers with each."""
    pieces = [Piece("readings", 0, 0, 2)]
    assert scripted(pieces, [_record(0, 0)], [], [], [_record(0, 1)]) == [
        (0, [0]),
        (0, []),
        (0, []),
        (0, [1]),
    ]


def test_turns_do_not_count_as_waiting(scripted: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the broker's own silence ends a task, however long the reader takes for its turns."""
    passed_s = 0.0

    def now() -> float:
        nonlocal passed_s
        passed_s += 0.1
        return passed_s

    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=now))
    silence: list[list[Message]] = [[] for _ in range(3)]

    def slowly(records: list[Message]) -> list[Message]:
        nonlocal passed_s
        passed_s += 5.0 * (not records)
        return records

    pieces = [Piece("readings", 0, 0, 1)]
    assert scripted(pieces, *silence, [_record(0, 0)], each=slowly)[-1] == (0, [0])


def test_topics_and_partitions_are_distinguished(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """Records of several topics come mixed; each piece gets its own, in order."""
    broker.create_topic("alerts", 2)
    pieces = []
    for topic, partition, count in (("alerts", 0, 70), ("alerts", 1, 30), ("readings", 0, 50)):
        for first in range(0, count, 10):  # one answer of the broker holds several of these
            pairs = [(b"k", b"%s %d" % (topic.encode(), number)) for number in range(first, first + 10)]
            broker.produce(topic, pairs, partition=partition)
        pieces.append(Piece(topic, partition, 0, count))
    found: dict[Piece, list[bytes | None]] = {piece: [] for piece in pieces}
    for piece, records in messages(options(subscribe="alerts,readings"), pieces):
        assert {(one.topic(), one.partition()) for one in records} <= {(piece.topic, piece.partition)}
        found[piece] += [one.value() for one in records]
    assert found == {
        piece: [b"%s %d" % (piece.topic.encode(), number) for number in range(piece.end)] for piece in pieces
    }


def test_pythons_collector_is_set_while_a_task_reads(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """It looks less often at messages, and afterwards as it did, also when the task was given up."""
    _produce(broker, 5000)
    before = gc.get_threshold()
    begun = messages(options(), [Piece("readings", 0, 0, 5000)])
    next(begun)
    assert gc.get_threshold()[0] == reading.NEW_OBJECTS_MAX
    begun.close()  # type: ignore[attr-defined]
    assert gc.get_threshold() == before


def test_a_task_without_work_opens_nothing(options: Callable[..., SourceOptions]) -> None:
    """An empty share is no reason to connect."""
    assert list(messages(options(), [])) == []
    assert not consumers.KEPT._idle


def test_a_worker_keeps_its_consumer_for_the_next_task(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """Workers are used again: one consumer for each worker and configuration, assigned for each task."""
    _produce(broker, 20)
    _read(options(), [Piece("readings", 0, 0, 10)])
    (kept,) = consumers.KEPT._idle.values()
    _read(options(columns="value"), [Piece("readings", 0, 5, 20)])
    assert [kept.consumer] == [one.consumer for one in consumers.KEPT._idle.values()]
    assert kept.consumer.assignment() == []


def test_a_task_that_was_given_up_spoils_no_other(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """A generator that is closed in the middle (`LIMIT`) takes its consumer with it."""
    _produce(broker, 5000)
    begun = messages(options(), [Piece("readings", 0, 0, 5000)])
    next(begun)
    inner = _read(options(), [Piece("readings", 0, 0, 50)])
    assert inner == {(0, 0): list(range(50))}
    begun.close()  # type: ignore[attr-defined]
    assert len(consumers.KEPT._idle) == 1
    assert _read(options(), [Piece("readings", 0, 40, 60)]) == {(0, 40): list(range(40, 60))}


def test_large_records_come_in_small_batches(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded in bytes: after the first look a batch has fewer records when they are large."""
    monkeypatch.setattr(reading, "CONSUME_RECORDS", 20)
    monkeypatch.setattr(reading, "CONSUME_BYTES", 100_000)
    _produce(broker, 200, size_bytes=10_000)
    sizes = [len(got) for _, got in messages(options(), [Piece("readings", 0, 0, 200)]) if got]
    assert sum(sizes) == 200
    assert sizes[0] <= 20
    assert max(sizes[1:]) <= 10


def test_records_that_retention_took_end_the_task_by_name(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """`failOnDataLoss=true`: the partition, the offsets and the way out are named."""
    _produce(broker, 100)
    broker.delete_records("readings", 0, 40)
    with pytest.raises(
        OffsetGapError, match=r"readings\[0\].*offset 10.*10 to 39 are gone.*failOnDataLoss=false"
    ):
        _read(options(), [Piece("readings", 0, 10, 100)])


def test_without_fail_on_data_loss_the_rest_is_read(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions], caplog: pytest.LogCaptureFixture
) -> None:
    """`failOnDataLoss=false`: what is left of a piece is read; a piece that is gone whole is none."""
    _produce(broker, 100)
    _produce(broker, 30, partition=1)
    broker.delete_records("readings", 0, 40)
    pieces = [
        Piece("readings", 0, 0, 30),
        Piece("readings", 0, 30, 100),
        Piece("readings", 1, 0, 30),
    ]
    with caplog.at_level(logging.WARNING, "ehkafka.spark"):
        found = _read(options(failOnDataLoss="false"), pieces)
    assert found == {(0, 0): [], (0, 30): list(range(40, 100)), (1, 0): list(range(30))}
    logged = [
        one.message for one in caplog.records if one.name == "ehkafka.spark" and "are gone" in one.message
    ]
    assert [text.partition("(retention). ")[2] for text in logged] == [
        "This batch lacks these offsets; the log begins at offset 40 (failOnDataLoss=false).",
        "The query continues at offset 40 (failOnDataLoss=false).",
    ]


def test_a_log_that_was_cut_below_a_piece_is_named(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """A piece that ends behind its log (a topic made anew) fails at once, not by a time-out."""
    _produce(broker, 10)
    with pytest.raises(OffsetGapError, match="recreated"):
        _read(options(), [Piece("readings", 0, 0, 30)])
    assert _read(options(failOnDataLoss="false"), [Piece("readings", 0, 0, 30)]) == {(0, 0): list(range(10))}


def test_a_broker_that_is_gone_ends_the_task_after_its_time(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """A task does not wait for ever: what is left and the last word of the client are named."""
    _produce(broker, 10)
    quick = options(**{"kafkaConsumer.pollTimeoutMs": "300"})
    broker.take_down()
    with pytest.raises(EndpointError, match=r"No record arrived within.*readings\[0\] from 0 to 10"):
        _read(quick, [Piece("readings", 0, 0, 10)])
    assert not consumers.KEPT._idle


def test_a_topic_that_may_not_be_read_ends_the_task(
    broker: EmbeddedBroker, options: Callable[..., SourceOptions]
) -> None:
    """A refusal of the broker is reported at once, with its usual cause."""
    _produce(broker, 10)
    broker.fail_next(ApiKey.FETCH, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(EndpointError, match="TOPIC_AUTHORIZATION_FAILED"):
        _read(options(), [Piece("readings", 0, 0, 10)])
