"""What the mirror says of partitions without a commit, and what becomes of them while it says nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata
from ehkafka.checkpoints.mirror.mirror import Mirror
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoreForbiddenError, StoreUnavailableError
from ehkafka.errors import EndpointError
from ehkafka.positions.mirror_start import MirrorStart
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.checkpoints.stores.store import StoredBlob

T1, T2 = TopicPartition("t", 1), TopicPartition("t", 2)
LAYOUT = Layout("ns", "g")


class Store(MemoryStore):
    """A store whose reads fail where a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[str], object] = lambda _name: None

    def read(self, name: str) -> StoredBlob | None:
        """Read, unless a test has it fail."""
        self.before(name)
        return super().read(name)


class Start:
    """A run's mirror, and what it is asked at an assignment."""

    def __init__(self, store: Store) -> None:
        ignored: Any = lambda _event: None  # noqa: E731
        proved: Any = lambda known: dict.fromkeys(known, (True, "it is"))  # noqa: E731
        self.mirror = Mirror(store, LAYOUT, owner="me", interval_s=0.1, emit=ignored)
        self.mirror.start()
        self.start = MirrorStart("mirror", group="g", emit=ignored, mirror=self.mirror, prove=proved)


def problem_in(why: str) -> str:
    """Return what the store said, of why a partition waits."""
    return why.partition("the mirror does not answer: ")[2].partition(" To begin at start=")[0]


@pytest.fixture
def store() -> Store:
    """Return a store that has the mirror of partition 1."""
    found, known = Store(), Checkpoint(next_offset=5, facts=LogFacts(witness=(4, 1), first_partitions=2))
    body, metadata = checkpoint_body(known), checkpoint_metadata(known)
    found.write(LAYOUT.name(*T1), metadata=metadata, body=body, expected=None)
    return found


@pytest.fixture
def run(store: Store) -> Iterator[Start]:
    """Return a run's start over it."""
    found = Start(store)
    yield found
    found.mirror.stop(1.0)


def refuse(_name: str) -> None:
    """Refuse the credential."""
    raise StoreForbiddenError("memory: 403. Give the identity the role.")


def break_down(name: str) -> None:
    """Read no blob of partition 2."""
    if name == LAYOUT.name(*T2):
        raise StoreUnavailableError("memory: 503.")


def test_what_a_store_refuses_later_is_an_outage(store: Store, run: Start) -> None:
    """A key that expires at noon ends at the next rebalance nothing that has worked since the morning."""
    run.start.find([T1], [])
    store.before = refuse
    assert problem_in(run.start.find([T1], []).waiting[T1]) == "memory: 403. Give the identity the role."


def test_what_was_found_is_kept_and_the_rest_waits(store: Store, run: Start) -> None:
    """One blob of two can be read: its partition begins; without the facts of others none does."""
    store.before = break_down
    answer = run.start.find([T1, T2], [])
    assert (dict(answer.offsets), problem_in(answer.waiting[T2])) == ({T1: 5}, "memory: 503.")
    store.before = lambda _name: None
    wait_until(lambda: run.start.is_known([T1]))
    answer = run.start.find([T1], [T2])
    assert (dict(answer.offsets), dict(answer.waiting)) == ({T1: 5}, {})


def test_without_the_facts_of_others_none_begins(store: Store) -> None:
    """They tell which partitions are new: one that is taken for an old one would begin elsewhere."""
    has_read = threading.Event()

    def read_one_and_then_break(name: str) -> None:
        if name == LAYOUT.name(*T2):
            assert has_read.wait(5.0)
            time.sleep(0.1)
        else:
            has_read.set()
        break_down(name)

    store.before = read_one_and_then_break
    store.calls_at_once = 2  # type: ignore[attr-defined]
    run = Start(store)
    assert problem_in(run.start.find([T1], [T2]).waiting[T1]) == "memory: 503."
    run.mirror.stop(1.0)


def test_who_asks_again_waits_for_no_answer(
    store: Store, run: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that stands still holds up one assignment for a bounded time, and then nothing."""
    monkeypatch.setattr("ehkafka.positions.mirror_start.NEXT_S", 0.1)
    store.before = lambda _name: time.sleep(0.5)
    assert set(run.start.find([T1], []).waiting) == {T1}
    began_s = time.monotonic()
    assert not run.start.is_known([T1])
    assert time.monotonic() - began_s < 0.2
    wait_until(lambda: run.start.is_known([T1]))
    assert dict(run.start.find([T1], []).offsets) == {T1: 5}


def test_what_could_not_be_proved_in_time_waits(
    store: Store, run: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer yet is no reason to end, and none to believe the mirror."""
    monkeypatch.setattr(run.start, "_prove", lambda _known: {})
    assert set(run.start.find([T1], []).waiting) == {T1}

    def fail(_known: object) -> None:
        raise EndpointError("the broker does not answer.")

    monkeypatch.setattr(run.start, "_prove", fail)
    assert problem_in(run.start.find([T1], []).waiting[T1]) == "the broker does not answer."
