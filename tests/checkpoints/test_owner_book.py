"""When a run says that it owns a partition, and what it still says when another client has written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from ehkafka.checkpoints.checkpoint import Ownership
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import ownership_metadata, read_ownership
from ehkafka.checkpoints.mirror.book import MirrorBook
from ehkafka.checkpoints.mirror.owners import CROSSED_S, EVERY_S, OwnerBook
from ehkafka.checkpoints.mirror.work import MirrorWork
from ehkafka.checkpoints.stores.memory import MemoryStore
from ehkafka.checkpoints.stores.store import StoreUnavailableError
from ehkafka.records import TopicPartition
from tests.kit.bad_store import BadStore

if TYPE_CHECKING:
    from ehkafka.checkpoints.stores.store import Version

T0 = TopicPartition("t", 0)
LAYOUT = Layout("ns", "g")
NAME = LAYOUT.name("t", 0, "ehkafka/owner")


class Run:
    """A run's owner book over a store, its clock set by hand."""

    def __init__(self, store: BadStore, owner: str) -> None:
        self.now_s = 0.0
        self.store = store
        self.book = OwnerBook(owner)
        self.work = MirrorWork(
            store,
            LAYOUT,
            MirrorBook(owner, 10.0),
            self.book,
            lock=threading.Condition(),
            emit=lambda _event: None,
            clock=lambda: self.now_s,
        )

    def turn(self, after_s: float = 0.0) -> None:
        """Do what is due after so long."""
        self.now_s += after_s
        self.work.do()


@pytest.fixture
def store() -> BadStore:
    """Return an empty store."""
    return BadStore()


def owner(store: BadStore) -> tuple[str, bool]:
    """Return who is said to own the partition, and whether it was released."""
    blob = MemoryStore.read(store, NAME)
    assert blob is not None
    text = read_ownership(blob.metadata)
    assert text is not None
    return text.owner, text.is_released


def say(store: BadStore, who: str) -> Version:
    """Write as another client does, whatever is there."""
    there = MemoryStore.read(store, NAME)
    ownership = Ownership(owner=who, epoch=1, at_ms=0)
    return store.write(
        NAME, metadata=ownership_metadata(ownership), body=b"", expected=there.version if there else None
    )


def test_a_killed_owner_s_word_is_replaced_at_once(store: BadStore) -> None:
    """Who takes a partition over says so with its first turn, whatever the dead one has written."""
    say(store, "killed")
    run = Run(store, "me")
    run.book.assigned(T0, 1)
    run.turn()
    assert owner(store) == ("me", False)


def test_a_word_that_crossed_with_the_last_owner_s_is_said_again_soon(store: BadStore) -> None:
    """The one before releases between our look and our first word: the table is wrong for a second."""
    run = Run(store, "me")
    say(store, "before")
    run.book.assigned(T0, 1)
    real_write = store.write

    def crossed(name: str, **arguments: object) -> Version:
        store.write = real_write  # type: ignore[method-assign]
        say(store, "before")
        return real_write(name, **arguments)  # type: ignore[arg-type]

    store.write = crossed  # type: ignore[method-assign]
    run.turn()
    assert owner(store) == ("before", False)
    run.turn(CROSSED_S)
    assert owner(store) == ("me", False)


def test_who_slept_through_the_loss_waits_a_turn_and_releases_nothing(store: BadStore) -> None:
    """Its refresh meets the new owner's word; when it hears of the loss, that word stays."""
    run = Run(store, "me")
    run.book.assigned(T0, 1)
    run.turn()
    say(store, "other")
    run.turn(EVERY_S)
    assert owner(store) == ("other", False)
    run.turn(EVERY_S - 1.0)
    assert owner(store) == ("other", False)
    run.book.ended(T0, 1)
    run.turn()
    assert owner(store) == ("other", False)
    assert run.book.next_due_s() is None


@pytest.mark.parametrize("lost", ["the first word", "a later word", "the release"])
def test_a_lost_answer_does_not_keep_a_partition_held(store: BadStore, lost: str) -> None:
    """The store has the text though its answer was lost: what says to be ours is still released."""
    run = Run(store, "me")
    run.book.assigned(T0, 1)
    if lost == "the first word":
        store.lost_answers = 1
        with pytest.raises(StoreUnavailableError):
            run.turn()
    else:
        run.turn()
    if lost == "a later word":
        store.lost_answers = 1
        with pytest.raises(StoreUnavailableError):
            run.turn(EVERY_S)
    run.book.ended(T0, 1)
    if lost == "the release":
        store.lost_answers = 1
        with pytest.raises(StoreUnavailableError):
            run.turn()
    for _ in range(2):
        run.turn()
    assert owner(store) == ("me", True)
    assert run.book.next_due_s() is None


def test_a_partition_that_was_never_said_to_be_ours_is_not_released(store: BadStore) -> None:
    """An epoch that ends before the first turn leaves no trace."""
    run = Run(store, "me")
    run.book.assigned(T0, 1)
    run.book.ended(T0, 1)
    run.turn()
    assert store.asked == 0
