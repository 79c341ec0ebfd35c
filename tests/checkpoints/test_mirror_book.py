from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.mirror.book import ENDED_S, FOREIGN_CHECK_S, MirrorBook, SeenBlob
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts
from ehkafka.records import TopicPartition

T0 = TopicPartition("t", 0)
NOTHING = SeenBlob(None, None, 0.0)


def progress(
    next_offset: int, *finished: tuple[int, int], witness: tuple[int, int] | None = None
) -> Position:
    """Return what a commit stored."""
    return Position(1, next_offset, 7, finished=finished, facts=LogFacts(witness=witness))


def seen(
    next_offset: int, *, owner: str = "other", version: str = "1", at_s: float = 0.0, **more: Any
) -> SeenBlob:
    """Return a blob as it was read."""
    return SeenBlob(version, Checkpoint(next_offset=next_offset, owner=owner, **more), at_s)


@pytest.fixture
def book() -> MirrorBook:
    """Return a book with one partition of ours, its blob not read yet."""
    found = MirrorBook("me", interval_s=10.0, group="g")
    found.assigned(T0, 1)
    return found


def test_nothing_is_written_before_the_blob_was_read(book: MirrorBook) -> None:
    """Who does not know what is there cannot know whether it moves back."""
    assert book.to_read(0.0) == [(T0, 1)]
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    assert book.to_write(1.0) == []
    book.was_read(T0, 1, NOTHING)
    assert book.to_write(1.0) == [T0]
    assert book.to_read(1.0) == []


def test_what_was_acknowledged_is_written_whole(book: MirrorBook) -> None:
    """Offset, ranges, epochs, owner and the record that tells the log."""
    book.was_read(T0, 1, NOTHING)
    book.acknowledged(T0, progress(5, (7, 9), witness=(4, 99)), requested_s=1.0, now_s=1.0)
    write = book.write(T0, written_at_ms=123)
    assert write is not None
    assert write.expected is None
    assert write.checkpoint == Checkpoint(
        next_offset=5,
        finished=((7, 9),),
        leader_epoch=7,
        facts=LogFacts(witness=(4, 99)),
        epoch=1,
        owner="me",
        written_at_ms=123,
        group="g",
        topic="t",
        commit_metadata="none",
    )


def test_an_unmoved_partition_is_not_written_again(book: MirrorBook) -> None:
    """The same position costs no request; new ranges above it do."""
    book.was_read(T0, 1, seen(5))
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    assert book.to_write(1.0) == []
    assert book.behind() == []
    book.acknowledged(T0, progress(5, (8, 9)), requested_s=2.0, now_s=2.0)
    assert book.to_write(2.0) == [T0]


def test_an_id_of_the_topic_that_the_blob_lacks_is_written(book: MirrorBook) -> None:
    """At the same position: only the mirror knows what a commit without metadata belongs to."""
    book.was_read(T0, 1, seen(5))
    named = Position(1, 5, 7, facts=LogFacts(topic_id=bytes(16)))
    book.acknowledged(T0, named, requested_s=1.0, now_s=1.0)
    assert book.to_write(100.0) == [T0]


def test_writes_of_one_partition_keep_their_distance(book: MirrorBook) -> None:
    """Only the newest position is written, an interval after the last one; in a hurry at once."""
    book.was_read(T0, 1, NOTHING)
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    done = book.write(T0, 0)
    assert done is not None
    book.was_written(T0, done, "2", 1.0)
    for next_offset in (6, 7):
        book.acknowledged(T0, progress(next_offset), requested_s=2.0, now_s=2.0)
    assert book.to_write(10.9) == []
    assert book.next_due_s() == 11.0
    assert book.to_write(2.0, hurry=True) == [T0]
    assert book.to_write(11.0) == [T0]
    write = book.write(T0, 0)
    assert write is not None
    assert (write.checkpoint.next_offset, write.expected) == (7, "2")


def test_the_same_offset_of_another_owner_is_left_alone_without_proof(book: MirrorBook) -> None:
    """He may know more of what is finished above it."""
    book.was_read(T0, 1, seen(40, finished=((50, 60),), at_s=5.0))
    book.acknowledged(T0, progress(40), requested_s=4.0, now_s=5.0)
    assert book.to_write(99.0) == []
    book.was_read(T0, 1, seen(40, owner="me", at_s=5.0, finished=((50, 60),)))
    assert book.to_write(99.0) == [T0]


def test_a_foreign_blob_is_never_overwritten(book: MirrorBook) -> None:
    """An SDK's checkpoint has no body of ours: it is looked at again later, and taken when it has gone."""
    book.acknowledged(T0, progress(40), requested_s=9.0, now_s=9.0)
    book.was_read(T0, 1, SeenBlob("1", None, 1.0))
    assert book.to_write(99.0, hurry=True) == []
    assert book.to_read(1.0 + FOREIGN_CHECK_S - 0.1) == []
    assert book.to_read(1.0 + FOREIGN_CHECK_S) == [(T0, 1)]
    book.was_read(T0, 1, NOTHING)
    assert book.to_write(99.0) == [T0]


def test_what_was_seen_is_seen_anew_after_a_refusal_and_in_a_new_epoch(book: MirrorBook) -> None:
    """Another client has written, or may have."""
    book.was_read(T0, 1, seen(5))
    assert book.to_read(0.0) == []
    assert book.was_refused(T0) == 1
    assert book.to_read(0.0) == [(T0, 1)]
    book.was_read(T0, 1, seen(5))
    book.assigned(T0, 2)
    assert book.to_read(0.0) == [(T0, 2)]


def test_answers_of_other_epochs_count_for_nothing(book: MirrorBook) -> None:
    """What was read or acknowledged before the last assignment says nothing about this one."""
    book.assigned(T0, 2)
    book.was_read(T0, 1, NOTHING)
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    assert book.to_read(0.0) == [(T0, 2)]
    assert book.behind() == []


def reassigned(book: MirrorBook, committed: int | None) -> None:
    """Give a partition back that owes its commit at 5, and whose group stands at `committed` by then."""
    book.acknowledged(T0, progress(5, (7, 9), witness=(4, 99)), requested_s=1.0, now_s=1.0)
    book.ended(T0, 1, 1.0)
    book.assigned(T0, 2, committed)
    assert book.to_write(2.0) == []


@pytest.mark.parametrize("there", [NOTHING, seen(3, at_s=2.0), seen(3, owner="me", at_s=2.0)])
def test_what_was_owed_is_owed_still_after_a_rebalance_that_gives_it_back(
    book: MirrorBook, there: SeenBlob
) -> None:
    """Nothing else may ever be committed there, and the mirror would stay behind."""
    reassigned(book, committed=5)
    assert book.behind_s(4.0) == 3.0
    book.was_read(T0, 2, there)
    assert book.to_write(2.0) == [T0]
    write = book.write(T0, 0)
    assert write is not None
    found = write.checkpoint
    assert (write.epoch, found.next_offset, found.finished, found.facts.witness) == (2, 5, ((7, 9),), (4, 99))
    book.was_written(T0, write, "2", 3.0)
    assert book.behind() == []


@pytest.mark.parametrize("committed", [None, 2, 6])
def test_what_was_owed_is_forgotten_where_the_group_stands_elsewhere(
    book: MirrorBook, committed: int | None
) -> None:
    """An operator moved the group meanwhile: what we knew would be ahead of it, or is old."""
    reassigned(book, committed)
    book.was_read(T0, 2, seen(1, at_s=2.0))
    assert (book.to_write(2.0), book.behind()) == ([], [])


def test_what_was_owed_is_forgotten_where_another_owner_has_written_it(book: MirrorBook) -> None:
    """His ranges above the commit are newer than ours, and the mirror is not behind."""
    reassigned(book, committed=5)
    book.was_read(T0, 2, seen(5, finished=((7, 12),), at_s=2.0))
    assert (book.to_write(2.0), book.behind()) == ([], [])


def test_what_an_ended_epoch_owes_is_written_once_and_only_forward(book: MirrorBook) -> None:
    """The last commit of a revoke is still mirrored, unless the next owner was quicker."""
    book.was_read(T0, 1, NOTHING)
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    book.ended(T0, 1, 1.0)
    assert book.to_write(1.0) == [T0]
    assert book.was_refused(T0) == 1
    book.was_read(T0, 1, seen(6, at_s=2.0))
    assert book.to_write(2.0) == []
    assert book.was_refused(T0) is None


def test_an_ended_epoch_is_given_up_after_a_while(book: MirrorBook) -> None:
    """A store that was away for long finds the next owner's writes, not ours."""
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=1.0)
    book.ended(T0, 1, 1.0)
    book.forget_ended(1.0 + ENDED_S)
    assert book.behind() == [T0]
    book.forget_ended(1.1 + ENDED_S)
    assert book.behind() == []


def test_the_record_that_tells_the_log_is_kept_while_no_newer_one_is_known(book: MirrorBook) -> None:
    """After a restart without a record the mirror must not forget it."""
    book.was_read(T0, 1, seen(40, facts=LogFacts(witness=(39, 1000))))
    book.acknowledged(T0, progress(41), requested_s=1.0, now_s=1.0)
    write = book.write(T0, 0)
    assert write is not None
    assert write.checkpoint.facts.witness == (39, 1000)


def test_how_far_behind_it_is(book: MirrorBook) -> None:
    """Since the oldest acknowledgement that is not mirrored."""
    book.was_read(T0, 1, NOTHING)
    assert book.behind_s(9.0) == 0.0
    book.acknowledged(T0, progress(5), requested_s=1.0, now_s=2.0)
    book.acknowledged(T0, progress(6), requested_s=3.0, now_s=4.0)
    assert book.behind_s(9.0) == 7.0
    done = book.write(T0, 0)
    assert done is not None
    book.was_written(T0, done, "1", 9.0)
    assert book.behind_s(9.0) == 0.0


class Group:
    """Two processes, one of them asleep at times, a group that fences them, and one blob."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.committed = 0
        self.owner = -1
        self.books = [MirrorBook(f"p{number}", 1.0) for number in (0, 1)]
        self.epochs = [0, 0]
        # Per process: acknowledgements on their way, and a blob that was read and not taken in yet.
        self.acks: list[list[tuple[int, int, float]]] = [[], []]
        self.blob: tuple[int, Checkpoint] | None = None
        self.writes = 0

    def step(self, what: str, who: int, forward: int) -> None:
        """Let one thing happen."""
        self.now_s += 1.0
        getattr(self, what)(who, forward)

    def assign(self, who: int, _forward: int) -> None:
        """The group gives the partition to a process; the old owner is asleep and hears nothing of it."""
        if self.owner != who:
            self.owner = who
            self.begin(who)

    def again(self, who: int, _forward: int) -> None:
        """A rebalance takes the partition away from its owner, who hears all answers, and gives it back."""
        if self.owner == who:
            while self.acks[who]:
                self.report(who, 0)
            self.books[who].ended(T0, self.epochs[who], self.now_s)
            self.begin(who)

    def begin(self, who: int) -> None:
        """Begin an epoch where the group stands."""
        self.epochs[who] += 1
        self.books[who].assigned(T0, self.epochs[who], self.committed)

    def commit(self, who: int, forward: int) -> None:
        """Only the owner's commit is taken; the answer comes later."""
        if self.owner == who:
            self.committed += forward
            self.acks[who].append((self.epochs[who], self.committed, self.now_s))

    def rewind(self, _who: int, forward: int) -> None:
        """An operator moves the group back, while the group has no member."""
        self.owner = -1
        self.committed = max(0, self.committed - 3 * forward)

    def report(self, who: int, _forward: int) -> None:
        """An answer arrives, however late."""
        if self.acks[who]:
            epoch, next_offset, requested_s = self.acks[who].pop(0)
            self.books[who].acknowledged(
                T0, progress(next_offset)._replace(epoch=epoch), requested_s, self.now_s
            )

    def read(self, who: int, _forward: int) -> None:
        """The blob is read."""
        for partition, epoch in self.books[who].to_read(self.now_s):
            found = SeenBlob(None, None, self.now_s)
            if self.blob is not None:
                found = SeenBlob(str(self.blob[0]), self.blob[1], self.now_s)
            self.books[who].was_read(partition, epoch, found)

    def write(self, who: int, _forward: int) -> None:
        """The blob is written, if its version is the expected one."""
        book = self.books[who]
        for partition in book.to_write(self.now_s, hurry=True):
            write = book.write(partition, 0)
            assert write is not None
            there = None if self.blob is None else str(self.blob[0])
            if write.expected != there:
                book.was_refused(partition)
                continue
            self.judge(who, write.checkpoint)
            self.writes += 1
            self.blob = (self.writes, write.checkpoint)
            book.was_written(partition, write, str(self.writes), self.now_s)

    def judge(self, who: int, new: Checkpoint) -> None:
        """Who is not the owner any more never takes the blob back."""
        if who != self.owner and self.blob is not None:
            assert new.next_offset > self.blob[1].next_offset


REWOUND = [("assign", 0, 1), ("commit", 0, 3), ("rewind", 0, 1), ("assign", 1, 1), ("report", 0, 1)]
REWOUND += [("read", 0, 1), ("read", 1, 1), ("write", 0, 1)]
# The old owner hears late that its commit was taken, and has seen what the new one wrote meanwhile.
OVERTAKEN = [("assign", 0, 1), ("commit", 0, 3), ("assign", 1, 1), ("commit", 1, 3), ("report", 1, 1)]
OVERTAKEN += [("read", 1, 1), ("write", 1, 1), ("read", 0, 1), ("report", 0, 1), ("write", 0, 1)]


@settings(max_examples=300, deadline=None)
@example(REWOUND)
@example(OVERTAKEN)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                ["assign", "again", "commit", "rewind", "report", "report", "read", "write", "write"]
            ),
            st.integers(0, 1),
            st.integers(1, 3),
        ),
        max_size=60,
    )
)
def test_no_order_of_events_lets_a_sleeping_owner_take_the_mirror_back(
    steps: list[tuple[str, int, int]],
) -> None:
    """Whatever is late, lost or rewound, a process that lost its partition only ever moves it forward."""
    group = Group()
    for what, who, forward in steps:
        group.step(what, who, forward)
    # The owner of the end gets his commits into the mirror, also after a rewind.
    who = max(group.owner, 0)
    for what in ("assign", "read", "commit", "report", "report", "report", "write", "read", "commit"):
        group.step(what, who, 1)
    while group.acks[who]:
        group.step("report", who, 1)
    # Nothing comes after a rebalance that gives him the partition back.
    for what in ("again", "read", "write", "read", "write"):
        group.step(what, who, 1)
    assert group.blob is not None
    assert group.blob[1].next_offset == group.committed
