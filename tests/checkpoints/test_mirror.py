from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror import outage
from ehkafka.checkpoints.mirror.body import checkpoint_body, read_checkpoint
from ehkafka.checkpoints.mirror.mirror import BEHIND_S, Mirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.events import (
    MirrorBehind,
    MirrorContested,
    MirrorForeign,
    MirrorRecovered,
    MirrorUnavailable,
    MirrorWritten,
)
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from tests.kit.bad_store import BadStore
from tests.kit.events import Events
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.checkpoints.mirror.work import Lookup

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LAYOUT = Layout("ns", "g")
NAME = LAYOUT.name("t", 0)


class Run:
    """A mirror in a bad store, and what it reported."""

    def __init__(self, owner: str = "me", store: BadStore | None = None) -> None:
        self.store = store or BadStore()
        self.reported = Events()
        self.mirror = Mirror(self.store, LAYOUT, owner=owner, interval_s=0.1, emit=self.reported.append)
        self.stopped = False

    def acknowledge(
        self, next_offset: int, *finished: tuple[int, int], partition: TopicPartition = T0
    ) -> None:
        """Let the broker acknowledge a commit that was sent just now."""
        done = Position(1, next_offset, finished=finished)
        self.mirror.acknowledged({partition: done}, time.monotonic())

    def mirrored(self, partition: TopicPartition = T0) -> int | None:
        """The next_offset that the store has."""
        blob = MemoryStore.read(self.store, LAYOUT.name(*partition))  # past the faults
        checkpoint = read_checkpoint(blob.body) if blob else None
        return checkpoint.next_offset if checkpoint else None

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop it once."""
        if not self.stopped:
            self.stopped = True
            self.mirror.stop(timeout_s)


def error_of(lookup: Lookup) -> str:
    """Wait for a look-up's end and return its error."""
    assert lookup.done.wait(5.0)
    return str(lookup.error)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Return a started mirror that owns a partition; it tries again quickly."""
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 0.02)
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 0.1)
    found = Run()
    found.mirror.start()
    found.mirror.assigned(T0, 1)
    yield found
    found.store.go.set()
    found.stop()


def test_what_was_acknowledged_is_mirrored_and_reported(run: Run) -> None:
    """The newest position gets there, with the metadata that others read."""
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    run.acknowledge(6)
    run.acknowledge(9, (11, 12))
    wait_until(lambda: run.mirrored() == 9)
    assert [metadata["sequencenumber"] for name, metadata in run.store.written if name == NAME] in (
        ["4", "8"],
        ["4", "5", "8"],
    )
    wait_until(lambda: run.reported.of(MirrorWritten)[-1].next_offsets == ((T0, 9),))


def test_an_outage_is_reported_once_and_its_end_once(run: Run) -> None:
    """While the store is down nothing waits for it; afterwards only the newest position is written."""
    run.acknowledge(1)
    wait_until(lambda: run.mirrored() == 1)
    run.store.down = True
    for next_offset in range(2, 50):
        run.acknowledge(next_offset)
    wait_until(lambda: run.mirror.state().error is not None)
    state = run.mirror.state()
    assert (state.behind_partitions, state.store) == (1, "memory")
    asked = run.store.asked
    wait_until(lambda: run.store.asked > asked + 2)
    run.store.down = False
    wait_until(lambda: run.mirrored() == 49)
    wait_until(lambda: run.reported.of(MirrorRecovered))
    assert len(run.reported.of(MirrorUnavailable)) == 1
    [over] = run.reported.of(MirrorRecovered)
    assert over.failed_attempts >= 2
    assert run.mirror.state().error is None
    assert len([name for name, _ in run.store.written if name == NAME]) == 2


def test_a_look_up_that_succeeds_ends_the_wait_for_the_next_write(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answers again: health stays red no longer than the write takes."""
    wait_until(lambda: run.store.written)
    monkeypatch.setattr(outage, "FIRST_WAIT_S", 60.0)
    monkeypatch.setattr(outage, "LONGEST_WAIT_S", 60.0)
    run.store.down = True
    run.acknowledge(5)
    wait_until(lambda: run.mirror.is_down)
    run.store.down = False
    assert run.mirror.ask([T1]).done.wait(5.0)
    wait_until(lambda: run.mirrored() == 5)


def test_a_lost_answer_to_our_own_write_is_no_conflict(run: Run) -> None:
    """The blob is read again, found to be ours, and written on."""
    run.store.lost_answers = 1
    run.acknowledge(5)
    wait_until(lambda: run.reported.of(MirrorRecovered))
    run.acknowledge(6)
    wait_until(lambda: run.mirrored() == 6)
    assert run.reported.of(MirrorContested) == []


def test_the_write_of_a_process_that_slept_is_refused(run: Run) -> None:
    """Another owner has written meanwhile: by its version the old one notices, and leaves it alone."""
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    newer = checkpoint_body(Checkpoint(next_offset=50, owner="other"))
    blob = run.store.read(NAME)
    assert blob is not None
    run.store.write(NAME, metadata={}, body=newer, expected=blob.version)
    # Acknowledged before the sleep, heard of only now.
    run.mirror.acknowledged({T0: Position(1, 7)}, time.monotonic() - 60.0)
    wait_until(lambda: run.reported.of(MirrorContested))
    [contest] = run.reported.of(MirrorContested)
    assert (contest.owner, contest.their_next_offset, contest.our_next_offset) == ("other", 50, 7)
    run.mirror.ended(T0, 1)
    run.stop()
    assert run.mirrored() == 50
    assert run.reported.of(MirrorBehind) == []


def test_two_apps_with_the_same_names_are_warned_of_each_other_once(run: Run) -> None:
    """One clear message each: the same group and container, and commits of both are acknowledged."""
    other = Run("other", run.store)
    other.mirror.start()
    other.mirror.assigned(T0, 1)
    try:
        for number in range(1, 6):
            for one in (run, other):
                one.acknowledge(10 * number + (one is other))
                wait_until(lambda one=one, number=number: one.mirrored() == 10 * number + (one is other))
        for one, owner in ((run, "other"), (other, "me")):
            [reported] = one.reported.of(MirrorContested)
            assert reported.owner == owner
            assert reported.blob == f"memory/{NAME}"
    finally:
        other.stop()


def test_the_blob_of_another_program_is_left_alone(run: Run) -> None:
    """An SDK's checkpoint under the same name: reported once, not overwritten; the other goes on."""
    name = LAYOUT.name("t", 1)
    run.store.write(name, metadata={"sequencenumber": "3", "offset": "1"}, body=b"", expected=None)
    run.mirror.assigned(T1, 1)
    run.acknowledge(9, partition=T1)
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    wait_until(lambda: run.reported.of(MirrorForeign))
    assert f"{T1} has no mirror: memory/{name} was written by another program." in (run.mirror.problem or "")
    run.stop()
    assert len(run.reported.of(MirrorForeign)) == 1
    blob = run.store.read(name)
    assert blob is not None
    assert dict(blob.metadata)["offset"] == "1"
    [behind] = run.reported.of(MirrorBehind)
    assert behind.partitions == (T1,)
    assert "another program's" in behind.error


def test_a_stop_writes_the_last_position_whatever_the_interval(run: Run) -> None:
    """Acknowledged, then given back, then stopped: the mirror has it."""
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    run.acknowledge(6)
    run.mirror.ended(T0, 1)
    run.stop()
    assert run.mirrored() == 6
    assert run.reported.of(MirrorBehind) == []


def test_a_stop_waits_no_longer_than_it_may(run: Run) -> None:
    """A store that stands still is left behind, and that is reported with the partition."""
    wait_until(lambda: run.store.asked > 0)
    run.store.go.clear()
    run.acknowledge(5)
    began_s = unstolen_s()
    run.stop(0.3)
    assert unstolen_s() - began_s < 2.0
    [left] = run.reported.of(MirrorBehind)
    assert left.partitions == (T0,)
    assert "0.3 s" in left.error


def test_a_stop_in_an_outage_tries_once(run: Run) -> None:
    """A dead store does not cost the whole time-out."""
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    run.store.down = True
    run.acknowledge(6)
    began_s = unstolen_s()
    run.stop(20.0)
    assert unstolen_s() - began_s < 5.0
    assert run.reported.of(MirrorBehind)[0].error == "memory: it is down."


def test_a_look_up_answers_or_says_why_not(run: Run) -> None:
    """What is there, what is not, a store that is down, one that stands still."""
    run.acknowledge(5)
    wait_until(lambda: run.mirrored() == 5)
    found = run.mirror.lookup([T0, T1], 5.0)
    assert found[T1] is None
    assert found[T0] is not None
    assert found[T0].next_offset == 5
    run.store.down = True
    assert run.mirror.lookup([T0], 5.0) == {}
    assert "it is down" in error_of(run.mirror.ask([T0]))
    run.store.go.clear()
    assert run.mirror.lookup([T0], 0.1) == {}


@pytest.mark.parametrize("error", [RuntimeError("a bug"), SystemExit("the key is not there")], ids=repr)
def test_whatever_a_store_raises_is_an_outage(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """A user's store may have a defect, a credential's callable end the program: the thread lives on."""

    def broken(_name: str) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(run.store, "read", broken)
        run.mirror.assigned(T1, 1)
        wait_until(lambda: run.reported.of(MirrorUnavailable))
        assert f"{type(error).__name__}: {error}" in error_of(run.mirror.ask([T0]))
    run.acknowledge(5, partition=T1)
    wait_until(lambda: run.mirrored(T1) == 5)


def test_a_look_up_waits_for_one_blob_and_not_for_all(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebalance right after the start of an app with many partitions finds the mirror at its first look."""
    wait_until(lambda: run.store.written)
    asked: list[str] = []
    begun, go_on = threading.Event(), threading.Event()

    def read(name: str) -> Any:
        asked.append(name)
        begun.set()
        assert go_on.wait(10.0)
        return MemoryStore.read(run.store, name)

    monkeypatch.setattr(run.store, "read", read)
    many = [TopicPartition(f"t{number}", 0) for number in range(50)]  # a topic's many would be listed
    for partition in many:
        run.mirror.assigned(partition, 1)
    assert begun.wait(10.0)
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(run.mirror.lookup([T0], 10.0)))
    waiting.start()
    wait_until(lambda: run.mirror._lookups)
    go_on.set()
    waiting.join(10.0)
    assert found == [{T0: None}]
    assert asked.index(NAME) < 10
    for partition in many:
        run.acknowledge(5, partition=partition)
    wait_until(lambda: all(run.mirrored(partition) == 5 for partition in many))


def test_a_look_up_may_do_with_what_was_read_in_time(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many partitions those that were asked for first spare their repeats, however slow the store is."""
    wait_until(lambda: run.store.written)
    go_on = threading.Event()

    def read(name: str) -> Any:
        if name != NAME:
            assert go_on.wait(10.0)
        return MemoryStore.read(run.store, name)

    with monkeypatch.context() as patch:
        patch.setattr(run.store, "read", read)
        assert run.mirror.lookup([T0, T1], 0.3) == {T0: None}
        go_on.set()


def test_a_look_up_that_was_given_up_costs_no_more_reads(run: Run) -> None:
    """The poll thread asks again: what it does not wait for any more must not be in its way."""
    wait_until(lambda: run.store.written)
    run.store.go.clear()
    assert run.mirror.lookup([TopicPartition("t", number) for number in range(100)], 0.05) == {}
    before = run.store.asked
    run.store.go.set()
    run.mirror.lookup([T1], 5.0)
    assert run.store.asked - before < 5


def test_health_names_a_mirror_that_is_behind_for_long(run: Run) -> None:
    """A short outage is no problem; a long one is, with the store and its error."""
    run.store.down = True
    run.acknowledge(5)
    wait_until(lambda: run.mirror.state().error is not None)
    assert run.mirror.problem is None
    clock = run.mirror._clock
    run.mirror._clock = lambda: clock() + BEHIND_S + 1
    assert "memory: it is down" in (run.mirror.problem or "")
    run.mirror._clock = clock


def test_a_mirror_that_was_never_started_stops_at_once() -> None:
    """A start that failed has one."""
    Run().stop()
    assert not [thread for thread in threading.enumerate() if thread.name == "ehkafka-mirror"]
