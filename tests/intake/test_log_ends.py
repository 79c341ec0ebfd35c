"""Where logs end, and what the client's position says of what is no record: never too much."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from ehkafka.intake.contact import Contact, Leader
from ehkafka.intake.log_ends import LogEnds
from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.poll_wait import IDLE_POLL_S, Rest
from ehkafka.lanes.epoch import Epoch
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_asker import KnownLogs, Question
from ehkafka.positions.log_states import KNOWN_S, KnownLog, LogStates
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

P0 = TopicPartition("t", 0)


class Client:
    """A client that knows the end of a log, and where it stands in it."""

    def __init__(self, end: int, position: int) -> None:
        self.end = end
        self.at = position

    def get_watermark_offsets(self, _where: Any, *, cached: bool) -> tuple[int, int]:
        """Tell the end without asking the broker."""
        assert cached
        return 0, self.end

    def position(self, partitions: list[Any]) -> list[Any]:
        """Tell the position."""
        return [
            SimpleNamespace(topic=p.topic, partition=p.partition, offset=self.at, leader_epoch=3)
            for p in partitions
        ]


class Hub:
    """Has a lock."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Give it."""
        yield


class Asker:
    """Notes what is asked, and answers when a test says so."""

    def __init__(self) -> None:
        self.questions: list[Question[KnownLogs]] = []
        self.groups: list[Any] = []

    def read_logs(self, groups: Any) -> Question[KnownLogs]:
        """Take a question."""
        self.groups.append(groups)
        self.questions.append(Question(KnownLogs({}, {}), Mock()))
        return self.questions[-1]

    def answer(self, start: int, end: int, at_s: float) -> None:
        """Answer the last one."""
        question = self.questions[-1]
        known = KnownLog(start, end, at_s)
        question.answer.logs.update({one: known for group in self.groups[-1] for one in group})
        question.done.set()


class Stand:
    """One partition of ours, received up to 10, and the looks at it."""

    def __init__(
        self, end: int, position: int, received_next: int | None = 10, unreachable_s: float = 15.0
    ) -> None:
        self.client: Any = Client(end, position)
        self.clock = VirtualClock()
        self.epoch = Epoch(P0, 1, {})
        self.epoch.received.next_offset = received_next
        self.owned = OwnedPartitions()
        route: Any = SimpleNamespace(name="h", hub=Hub())
        self.owned[P0] = OwnedPartition(route, self.epoch)
        self.asker, self.events = Asker(), list[Any]()
        self.contact = Contact(self.clock.now_s, unreachable_s)
        self.flow = SimpleNamespace(paused=set[TopicPartition]())
        context: Any = SimpleNamespace(
            owned=self.owned,
            clock=self.clock.now_s,
            history=None,
            brokers=SimpleNamespace(
                contact=self.contact, asker=self.asker, throttle=SimpleNamespace(is_recent=False)
            ),
            emit=self.events.append,
            flow=self.flow,
            begins=SimpleNamespace(catch_up_ends=None),
        )
        self.log_ends = LogEnds(context)

    def pass_half_a_second(self, *, drained: bool = True, answers: bool = True) -> None:
        """Let half a second pass, in which all was taken and the leader answered, or not."""
        self.clock.advance(0.5)
        if answers:
            self.contact.leaders = {P0: Leader("broker 2 (b:9092)", self.clock.now_s())}
        self.log_ends.has_drained = drained
        self.log_ends.check(self.client, [self.epoch])
        self.log_ends.keep([self.epoch])

    def age_s(self) -> float:
        """Return how old the known end is."""
        return self.owned.logs.age_s(P0, self.clock.now_s())

    def check(self) -> int | None:
        """Look, and return up to where the partition has received."""
        self.log_ends.check(self.client, [self.epoch])
        return self.epoch.received.next_offset


@pytest.mark.parametrize(
    ("start", "is_fetched", "expected"), [(500, True, 500), (499, True, None), (500, False, None)]
)
def test_a_log_that_is_fetched_in_vain_and_has_no_record_has_a_position(
    start: int, is_fetched: bool, expected: int | None
) -> None:
    """At once; not where a record is left, nor where the client may hold some that were deleted since."""
    stand = Stand(end=500, position=-1001, received_next=None)
    for _ in range(6):
        stand.pass_half_a_second(drained=is_fetched)
    stand.asker.answer(start, 500, stand.clock.now_s())
    stand.pass_half_a_second(drained=is_fetched)
    assert stand.epoch.received.next_offset == expected


@pytest.mark.parametrize(
    ("end", "position", "noted", "received_next"),
    [
        (12, 10, 12, 10), (12, 12, 12, 12), (15, 12, 15, 12), (12, -1001, 12, 10), (10, 10, 10, 10),
        (-1001, 10, None, 10),
    ],
    ids=[
        "records to come", "only control records", "some of them", "position unknown", "at the end",
        "end unknown",
    ],
)  # fmt: skip
def test_what_is_no_record_counts_as_received(
    end: int, position: int, noted: int | None, received_next: int
) -> None:
    """What the client has passed holds no record; nothing is known of what lies behind."""
    stand = Stand(end, position)
    stand.owned.saver._quiet.is_all = True
    assert stand.check() == received_next
    assert stand.owned.saver.is_at_rest is (received_next == 10)
    assert stand.owned.logs.end(P0) == noted
    assert stand.epoch.watermark() == received_next


def test_a_log_without_any_record_is_passed() -> None:
    """A start at the earliest offset has no position before something was fetched."""
    stand = Stand(12, 12, received_next=None)
    assert stand.check() == 12
    mark = stand.epoch.received.batches.at(11)
    assert mark is not None
    assert mark.leader_epoch == 3


def test_a_position_from_before_the_assignment_proves_nothing() -> None:
    """Librdkafka forgets it a moment after the assign; until then it is of another place in the log."""
    stand = Stand(600, 500)
    stand.log_ends.begin(stand.client, [P0])
    assert stand.check() == 10
    stand.client.at = -1001
    assert stand.check() == 10
    stand.client.at = 11
    assert stand.check() == 11
    stand.client.at = 500
    assert stand.check() == 500


def test_the_highest_started_record_is_no_control_record() -> None:
    """Else a drain would finish all that waits below the end of a transaction."""
    stand = Stand(12, 12)
    message: Any = SimulatedMessage("t", 0, 9, b"k", b"")
    waiting = (message, b"k", 1, stand.epoch)
    stand.epoch.add([waiting], 1)
    stand.check()
    assert stand.epoch.received.next_offset == 12
    assert stand.epoch.highest_started([waiting]) == 8


def test_an_end_that_was_passed_is_looked_up_again() -> None:
    """Else the lag would read 0 between two looks, however long the log is."""
    stand = Stand(5_000, 10)
    logs = stand.owned.logs
    logs.answered(P0, LogBounds(0, 8), 0.0)
    stand.log_ends.check_where_passed(stand.client, [stand.epoch])
    assert logs.end(P0) == 5_000
    stand.client.end = 9_000
    stand.log_ends.check_where_passed(stand.client, [stand.epoch])
    assert logs.end(P0) == 5_000


@pytest.mark.parametrize("how", ["fetched", "paused", "withheld", "silent"])
def test_what_no_fetch_shows_is_asked_for_again_and_again(how: str) -> None:
    """A fetch that comes back empty shows that the log has not grown; a paused partition has none."""
    stand = Stand(10, 10)
    for _ in range(5):
        stand.pass_half_a_second()
    asked = len(stand.asker.questions)
    assert (asked, stand.age_s()) == (0, 0.0)
    if how == "paused":
        stand.flow.paused.add(P0)
    for _ in range(14):
        stand.pass_half_a_second(drained=how != "withheld", answers=how != "silent")
    assert bool(stand.asker.questions) == (how != "fetched")
    if how == "fetched":
        return
    assert stand.age_s() >= 5.0
    stand.asker.answer(0, 450, stand.clock.now_s())
    stand.pass_half_a_second(drained=how != "withheld", answers=how != "silent")
    assert (stand.owned.logs.end(P0), stand.age_s()) == (450, 0.5)


def test_one_that_is_wanted_is_asked_at_once_and_one_question_is_out_at_a_time() -> None:
    """However young what is known is; while the answer is awaited nothing is asked again."""
    stand = Stand(10, 10)
    for _ in range(5):
        stand.pass_half_a_second()
    stand.owned.logs.wanted.add(P0)
    for _ in range(20):
        stand.pass_half_a_second(answers=False)
    assert stand.asker.groups == [[[P0]]]


def test_silent_leaders_are_asked_last_and_one_at_a_time() -> None:
    """A request that runs out of time hides no other leader's answer, nor do several hold it up."""
    stand = Stand(10, 10)
    p1, p2, p3 = (TopicPartition("t", number) for number in (1, 2, 3))
    stand.owned |= {p: stand.owned[P0]._replace(epoch=Epoch(p, 1, {})) for p in (p1, p2, p3)}
    now_s = stand.clock.now_s()
    silent = {P0: Leader("1", now_s - 10.0), p2: Leader("1", now_s - 10.0), p3: Leader("3", now_s - 60.0)}
    asked = []
    for _ in range(4):
        stand.contact.leaders = {**silent, p1: Leader("2", stand.clock.now_s())}
        stand.log_ends.keep(list(stand.owned.epochs()))
        asked.append(stand.asker.groups[-1])
        stand.asker.questions[-1].done.set()
        stand.clock.advance(4.0)
    assert asked == [[[p1], [P0, p2]], [[p1], [p3]]] * 2


def test_what_is_asked_never_takes_back_what_a_fetch_knew_of() -> None:
    """With read_committed a question's answer is the end of the last finished transaction."""
    book = LogStates()
    book.fetched(P0, 20, 1.0)
    book.answered(P0, LogBounds(3, 15), 2.0)
    assert book.get(P0) == KnownLog(3, 20, 2.0)
    book.fetched(P0, 12, 1.5)
    assert book.end(P0) == 20
    book.fetched(P0, 12, 3.0)
    assert book.get(P0) == KnownLog(3, 12, 3.0)


def test_partitions_without_a_record_to_come_are_looked_at_in_turn() -> None:
    """A thousand idle ones cost little; one that lags, or has no position yet, is looked at each time."""
    stand = Stand(10, 10)
    others = [TopicPartition("t", number) for number in range(1, 8)]
    stand.owned |= {p: stand.owned[P0]._replace(epoch=Epoch(p, 1, {})) for p in others}
    for epoch in stand.owned.epochs():
        epoch.received.next_offset = None if epoch.partition == others[0] else 10
        stand.owned.logs.answered(epoch.partition, LogBounds(0, 11 if epoch.partition == P0 else 10), 0.0)
    looks = [[one.partition for one in stand.log_ends.due()] for _ in range(4)]
    assert all({P0, others[0]} <= {*look} for look in looks)
    assert sorted({one for look in looks for one in look}) == sorted(stand.owned)
    assert sum(map(len, looks)) == 2 * 4 + 6


@pytest.mark.parametrize(("unreachable_s", "looks_max"), [(1.0, 20), (2.0, 20), (4.0, 20), (15.0, 6)])
def test_a_quiet_log_is_looked_at_before_its_number_is_too_old(unreachable_s: float, looks_max: int) -> None:
    """However soon that is: else its broker would count as silent. By default it stays at its turns."""
    stand = Stand(10, 10, unreachable_s=unreachable_s)
    age_s = looks = 0.0
    for _ in range(20):
        stand.clock.advance(0.5)
        age_s = max(age_s, stand.age_s()) if looks else 0.0
        # As of the last statistics.
        stand.contact.leaders = {P0: Leader("b", stand.clock.now_s() - unreachable_s / 6)}
        stand.log_ends.has_drained = True
        due = stand.log_ends.due()
        stand.log_ends.check(stand.client, due)
        stand.log_ends.keep(due)
        looks += len(due)
    assert age_s < unreachable_s
    assert looks <= looks_max


@pytest.mark.parametrize(("statistics_s", "fetch_s"), [(2.5, 0.5), (5.0, 0.5), (2.5, 5.0), (1e9, 0.5)])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9])
def test_at_rest_an_end_is_never_too_old_to_be_shown(
    statistics_s: float, fetch_s: float, phase: float
) -> None:
    """However rarely the client tells of its fetches; an answer to a question is taken at once."""
    stand, rest = Stand(10, 10), Rest(15.0)
    oldest_s = next_check_s = 0.0
    next_statistics_s, asked = stand.clock.now_s() + phase * statistics_s, 0
    for turn in range(600):
        stand.clock.advance(rest.wait_s if rest.is_now else IDLE_POLL_S)
        now_s = stand.clock.now_s()
        oldest_s = max(oldest_s, stand.age_s()) if turn > 100 else 0.0
        if len(stand.asker.questions) > asked:
            asked += 1
            stand.asker.answer(0, 10, now_s)
        if now_s >= next_statistics_s:
            next_statistics_s += statistics_s
            stand.contact.leaders = {P0: Leader("b", now_s - now_s % fetch_s)}
        if now_s >= next_check_s:
            next_check_s = now_s + 0.5
            rest.note(0, now_s, is_idle=True)
            if rest.wants_check(now_s, is_asked=stand.log_ends.is_asked):
                stand.log_ends.has_drained = True
                stand.log_ends.check(stand.client, [stand.epoch])
                stand.log_ends.keep([stand.epoch])
    assert rest.is_now
    assert oldest_s < KNOWN_S
