"""Many blobs: one listing before, several at a time but no more than the store takes, none behind another."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.mirror.side_by_side import side_by_side
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoreConflictError, StoreForbiddenError
from ehkafka.events import MirrorBehind, MirrorForeign, MirrorUnavailable
from ehkafka.records import TopicPartition
from tests.checkpoints.test_mirror import LAYOUT, NAME, T1, Run
from tests.kit.bad_store import BadStore
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def run() -> Iterator[Run]:
    """Return a started mirror in a store that takes one call at a time."""
    found = Run()
    found.mirror.start()
    found.mirror.assigned(TopicPartition("t", 0), 1)
    yield found
    found.stop()


def never() -> bool:
    """Go on."""
    return False


@pytest.mark.parametrize("at_once", [1, 4])
def test_as_many_run_at_once_as_the_store_takes(at_once: int) -> None:
    """Each waits for so many others, in groups: with one fewer at a time this would not end."""
    together, done = threading.Barrier(at_once, timeout=10.0), list[int]()
    lock, running, most = threading.Lock(), [0], [0]

    def work(item: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        together.wait()
        with lock:
            running[0] -= 1
        done.append(item)

    assert side_by_side(work, range(40), at_once, never)
    assert sorted(done) == list(range(40))
    assert most[0] == at_once
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ehkafka-mirror")]


def test_an_error_is_raised_when_all_calls_have_ended_and_begins_no_other() -> None:
    """The one that is on its way may write still: what comes after must not run at the same time."""
    begun, go_on, ended = list[int](), threading.Event(), list[int]()

    def work(item: int) -> None:
        begun.append(item)
        if item == 0:
            threading.Timer(0.1, go_on.set).start()
            raise SystemExit("the key is not there")
        assert go_on.wait(10.0)
        ended.append(item)

    with pytest.raises(SystemExit, match="the key is not there"):
        side_by_side(work, range(100), 2, never)
    assert sorted(begun) == [0, *ended]
    assert len(begun) <= 2


def test_nothing_begins_once_it_is_over() -> None:
    """A look-up waits: the rest stays for the next pass."""
    begun = list[int]()
    assert not side_by_side(begun.append, range(9), 3, lambda: True)
    assert side_by_side(begun.append, range(9), 1, lambda: len(begun) >= 4)
    assert begun == [0, 1, 2, 3]


def test_many_partitions_are_listed_first_and_written_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 300 blobs one is there: it alone is read. Owners are written in the same passes."""
    store, many = BadStore(), [TopicPartition("t", number) for number in range(300)]
    store.calls_at_once = 8  # type: ignore[attr-defined]
    MemoryStore.write(store, LAYOUT.name("t", 7), metadata={}, body=b"theirs", expected=None)
    read: list[str] = []
    monkeypatch.setattr(store, "read", lambda name: (read.append(name), MemoryStore.read(store, name))[1])
    threads: set[str] = set()
    write = store.write

    def slow_write(name: str, **what: Any) -> str:
        threads.add(threading.current_thread().name)
        time.sleep(0.002)
        return write(name, **what)

    monkeypatch.setattr(store, "write", slow_write)
    run = Run(store=store)
    for partition in many:
        run.mirror.assigned(partition, 1)
        run.acknowledge(5, partition=partition)
    run.mirror.start()
    try:
        wait_until(lambda: sum(run.mirrored(one) == 5 for one in many) == 299)
        owners = [LAYOUT.name(*one, "ehkafka/owner") for one in many]
        wait_until(lambda: all(MemoryStore.read(store, name) for name in owners))
        assert LAYOUT.name("t", 7) in read
        assert len(read) < 8
        assert len(threads) == 8
        [foreign] = run.reported.of(MirrorForeign)
        assert foreign.partition == many[7]
    finally:
        run.stop()


def test_checkpoints_do_not_wait_for_all_owners(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """An app that has just begun writes hundreds of owners, and its first commits come a second later."""
    wait_until(lambda: run.store.written)
    write, begun, go_on = run.store.write, threading.Event(), threading.Event()

    def write_after_the_commit(name: str, **what: Any) -> str:
        begun.set()
        assert go_on.wait(10.0)
        return write(name, **what)

    monkeypatch.setattr(run.store, "write", write_after_the_commit)
    for number in range(1, 1000):
        run.mirror.assigned(TopicPartition("t", number), 1)
    assert begun.wait(10.0)
    run.acknowledge(5)
    go_on.set()
    wait_until(lambda: run.mirrored() == 5)
    assert [name for name, _ in run.store.written].index(NAME) < 500


def test_a_store_that_may_not_be_listed_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A SAS for reading and writing alone was enough before listings."""

    def refuse(_prefix: str) -> None:
        raise StoreForbiddenError("memory: 403 AuthorizationPermissionMismatch.")

    monkeypatch.setattr(run.store, "list_blobs", refuse)
    many = [TopicPartition("t", number) for number in range(20)]
    assert run.mirror.lookup(many, 5.0) == dict.fromkeys(many)


def test_a_blob_that_another_always_writes_first_holds_up_no_other(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two conflicts in a row are no outage: the other partitions are written in the same pass."""
    write = run.store.write

    def race(name: str, **what: Any) -> str:
        if name == NAME:
            raise StoreConflictError(f"memory: {name}")
        return write(name, **what)

    monkeypatch.setattr(run.store, "write", race)
    run.acknowledge(5)
    run.mirror.assigned(T1, 1)
    run.acknowledge(7, partition=T1)
    wait_until(lambda: run.mirrored(T1) == 7)
    assert run.reported.of(MirrorUnavailable) == []


def test_a_stop_that_is_too_short_for_many_blobs_is_no_silent_store(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store answered all along: more time helps, a look at the network does not."""
    write, many = run.store.write, [TopicPartition("t", number) for number in range(50)]

    def slow_write(name: str, **what: Any) -> str:
        time.sleep(0.05)
        return write(name, **what)

    monkeypatch.setattr(run.store, "write", slow_write)
    for partition in many:
        run.mirror.assigned(partition, 1)
        run.acknowledge(5, partition=partition)
    run.stop(0.5)
    [left] = run.reported.of(MirrorBehind)
    assert left.error == "0.5 s were too short to write the whole mirror"
