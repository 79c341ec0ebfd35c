"""A batch that cannot be read: its partition says so at once, nothing passes it, the others go on."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.errors import UnfinishedError
from ehkafka.events import ConnectionProblem, LogReplaced, PartitionReadable, PartitionUnreadable
from ehkafka.intake import unreadable
from ehkafka.positions.empty_tails import empty_tails
from ehkafka.records import TopicPartition
from ehkafka.testing import ApiKey
from tests.contract.conftest import ends_with
from tests.contract.mirrored import commit, text_of
from tests.kit.broken_batches import CODES, broken_batch, good_batch, write_batch
from tests.kit.waiting import must_stay, wait_until

REPORTED = [what for what, code in CODES.items() if code]


@pytest.mark.parametrize("what", REPORTED)
def test_a_batch_that_cannot_be_read_is_named_at_once_and_not_passed(
    lab: Any, recorder: Any, events: Any, what: str
) -> None:
    """Event, health, snapshot and commit say the place, whatever the client's own position does."""
    write_batch(lab.broker, "t4", good_batch([b"1", b"2"]))
    write_batch(lab.broker, "t4", broken_batch(what, 1))
    write_batch(lab.broker, "t4", good_batch([b"4"]))
    write_batch(lab.broker, "t4", good_batch([b"1"]), partition=1)
    app = lab.start(recorder, "t4")
    wait_until(lambda: events.of(PartitionUnreadable) and recorder.count == 3)
    (event,) = events.of(PartitionUnreadable)
    assert (event.partition, event.offset, event.code) == (TopicPartition("t4", 0), 2, CODES[what])
    (reason,) = app.health().reasons
    assert "t4[0]@2" in reason
    assert "ehkafka offsets skip t4/0@2 --group g" in reason
    wait_until(lambda: (lab.committed(0, topic="t4"), lab.committed(1, topic="t4")) == (2, 1))
    must_stay(lambda: recorder.count == 3 and lab.committed(0, topic="t4") == 2, for_s=0.7)
    found = app.snapshot().partitions[0].unreadable
    assert (found.offset, found.is_batch) == (2, True)
    assert events.of(ConnectionProblem) == []


def test_what_the_client_has_passed_such_a_batch_for_is_received_later(lab: Any, recorder: Any) -> None:
    """It may stand in the client's queue behind the error, and be handed out with it."""
    has_read_on = threading.Event()
    app = lab.start(recorder, order_by=lambda _record: has_read_on.wait(5.0))
    write_batch(lab.broker, "t", good_batch([b"1"]))
    wait_until(lambda: app.snapshot().partitions)
    time.sleep(0.3)
    write_batch(lab.broker, "t", broken_batch("format", 1))
    write_batch(lab.broker, "t", good_batch([b"3"]))
    time.sleep(1.2)  # the client waits for half a second behind an error
    has_read_on.set()
    wait_until(lambda: app.snapshot().partitions[0].unreadable and lab.committed() == 1)
    must_stay(lambda: recorder.count == 1 and lab.committed() == 1, for_s=0.7)


def test_a_batch_at_the_begin_of_the_log_is_named_too(lab: Any, recorder: Any) -> None:
    """Nothing was received before it, so there is no position but the batch's own."""
    write_batch(lab.broker, "t", broken_batch("format", 3))
    write_batch(lab.broker, "t", good_batch([b"4"]))
    app = lab.start(recorder)
    wait_until(lambda: app.snapshot().partitions and app.snapshot().partitions[0].unreadable)
    assert app.snapshot().partitions[0].unreadable.offset == 0
    assert recorder.count == 0


def test_a_batch_that_can_be_read_again_is_read(
    lab: Any, recorder: Any, events: Any, monkeypatch: Any
) -> None:
    """Another leader may have a good copy: the partition is tried again, and health is green behind it."""
    monkeypatch.setattr(unreadable, "RETRY_S", 0.3)
    lab.produce("a b")
    lab.broker.fail_next(ApiKey.FETCH, KafkaError.INVALID_MSG)
    app = lab.start(recorder)
    wait_until(lambda: events.of(PartitionReadable))
    assert [event.is_batch for event in events.of(PartitionUnreadable)] == [True]
    wait_until(lambda: recorder.count == 2 and lab.committed() == 2)
    assert app.health().ok


def test_a_batch_behind_errors_of_its_broker_is_not_passed(lab: Any, recorder: Any, events: Any) -> None:
    """A disk fails, and then it gives a broken batch: the client reads on behind that one."""
    lab.broker.fail_next(ApiKey.FETCH, *[KafkaError.UNKNOWN] * 2)
    write_batch(lab.broker, "t", broken_batch("format", 1))
    write_batch(lab.broker, "t", good_batch([b"2"]))
    lab.start(recorder)
    wait_until(lambda: len(events.of(PartitionUnreadable)) == 2)
    must_stay(lambda: recorder.count == 0 and not lab.committed(), for_s=1.5)
    assert [event.is_batch for event in events.of(PartitionUnreadable)] == [False, True]


def test_an_error_of_the_broker_for_one_partition_names_it_while_it_lasts(
    lab: Any, recorder: Any, events: Any
) -> None:
    """It is no problem of the connection, and no batch to skip."""
    lab.broker.fail_next(ApiKey.FETCH, *[KafkaError.UNKNOWN] * 3)
    app = lab.start(recorder)
    wait_until(lambda: app.health().reasons)
    (reason,) = app.health().reasons
    assert "t[0]@0" in reason
    assert "skip" not in reason
    lab.produce("a")
    wait_until(lambda: recorder.count == 1 and app.health().ok)
    assert [event.is_batch for event in events.of(PartitionUnreadable)] == [False]


def test_its_next_owner_says_so_too(lab: Any) -> None:
    """Also where that is the same one: librdkafka keeps the pause over a rebalance."""
    write_batch(lab.broker, "t4", broken_batch("codec", 2))
    one, two = lab.app(lab.recorder(), "t4"), lab.app(lab.recorder(), "t4")

    def seen(app: Any) -> list[int]:
        return [each.epoch for each in app.snapshot().partitions if each.unreadable]

    one.start()
    wait_until(lambda: seen(one) == [1])
    two.start()
    wait_until(lambda: len(two.snapshot().partitions) == 2 and len(seen(one) + seen(two)) == 1)
    two.stop()
    wait_until(lambda: len(one.snapshot().partitions) == 4 and seen(one) and seen(one)[0] > 1)


def test_a_batch_of_which_the_client_reports_nothing_is_found(
    lab: Any, recorder: Any, events: Any, monkeypatch: Any
) -> None:
    """Where a partition stands still another client reads on from there, and knows by its statistics."""
    monkeypatch.setattr("ehkafka.intake.standstill.SILENT_S", 0.3)
    monkeypatch.setattr("ehkafka.positions.log_asker.empty_tails", partial(empty_tails, timeout_s=2.0))
    write_batch(lab.broker, "t", good_batch([b"1"]))
    write_batch(lab.broker, "t", broken_batch("length", 2))
    write_batch(lab.broker, "t", good_batch([b"4"]))
    app = lab.start(recorder)
    wait_until(lambda: events.of(PartitionUnreadable))
    must_stay(
        lambda: len(app.health().reasons) == 1 and "offsets skip t/0@1 --group g" in app.health().reasons[0]
    )
    assert lab.committed() == 1


@pytest.mark.parametrize("what", ["compression", "length"])
def test_a_partition_that_waits_before_such_a_batch_is_not_caught_up(
    lab: Any, recorder: Any, monkeypatch: Any, what: str
) -> None:
    """The run ends with the code for what is left to do, and the place; the client may report nothing."""
    monkeypatch.setattr("ehkafka.intake.caught_up.SILENT_S", 0.3)
    monkeypatch.setattr("ehkafka.intake.standstill.SILENT_S", 0.3)
    monkeypatch.setattr("ehkafka.positions.log_asker.empty_tails", partial(empty_tails, timeout_s=2.0))
    write_batch(lab.broker, "t", good_batch([b"1"]))
    write_batch(lab.broker, "t", broken_batch(what, 2))
    app = lab.app(recorder)
    with pytest.raises(
        UnfinishedError, match=r"t\[0\]@1 \(its records cannot be read: .*skip t/0@1"
    ) as raised:
        app.run(until="caught_up", settle_s=0.5)
    assert raised.value.exit_code == 4
    assert lab.committed() == 1


# --- another log of the name ---


OLD, NEW = 5, 9
LONG_AGO_MS = 1_600_000_000_000


@pytest.fixture(autouse=True)
def offsets_come_twice(lab: Any) -> None:
    """Tell the judge of histories, who knows one log of a name, to leave these alone."""
    lab.judged = False


@pytest.fixture
def asks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the logs with each of the poll thread's slow looks."""
    monkeypatch.setattr("ehkafka.run.connection.refresh_s", lambda _properties: 0.1)


def keys(recorder: Any) -> set[bytes]:
    """Return what was handled."""
    return set(recorder.finished_keys)


def words(prefix: str, count: int) -> str:
    """Return keys for `lab.produce`."""
    return " ".join(f"{prefix}{number}" for number in range(count))


def make_anew(lab: Any) -> None:
    """Delete the topic and make it again with a longer log."""
    lab.broker.delete_topic("t")
    lab.broker.create_topic("t", 1)
    lab.produce(words("n", NEW))


@pytest.mark.usefixtures("asks_often")
def test_a_running_app_finds_another_record_where_its_witness_was(
    lab: Any, recorder: Any, events: Any
) -> None:
    """All of the new log is handled, though the old position lies inside of it."""
    lab.produce(words("o", OLD))
    lab.start(recorder, on_out_of_range="earliest", commit_interval_s=0.1)
    wait_until(lambda: lab.committed() == OLD)
    make_anew(lab)
    everything = {f"n{number}".encode() for number in range(NEW)}
    wait_until(lambda: keys(recorder) >= everything)
    wait_until(lambda: lab.committed() == NEW)
    [reported] = events.of(LogReplaced)
    assert "the record at" in reported.reason
    assert reported.resumed_at == 0


@pytest.mark.parametrize("policy", ["stop", "earliest"])
def test_a_commit_whose_witness_is_another_record_does_not_decide(
    lab: Any, recorder: Any, events: Any, policy: str
) -> None:
    """The app begins at it, for the witness is read meanwhile; then the policy decides."""
    lab.produce(words("n", NEW))
    commit(lab, OLD, metadata=text_of(OLD, witness=(OLD - 1, LONG_AGO_MS)))
    app = lab.start(recorder, on_out_of_range=policy)
    if policy == "stop":
        ends_with(app, ehkafka.errors.OffsetGapError, r"to the old topic.*2020-09-13T12:26:40")
    else:
        wait_until(lambda: keys(recorder) >= {f"n{number}".encode() for number in range(NEW)})
    [reported] = events.of(LogReplaced)
    assert reported.resumed_at == (0 if policy == "earliest" else None)
