"""Which partitions stand still, since when, and what another client reads in their logs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from ehkafka.intake.owned import OwnedPartition, OwnedPartitions
from ehkafka.intake.standstill import AGAIN_S, SILENT_S, UNKNOWN_S, Standstill, StandstillWatch
from ehkafka.lanes.epoch import Epoch
from ehkafka.positions.empty_tails import Tails
from ehkafka.positions.gap import LogBounds
from ehkafka.positions.log_asker import Question
from ehkafka.records import TopicPartition
from tests.kit.clock import VirtualClock

if TYPE_CHECKING:
    from ehkafka.endpoint.broker_errors import FailedFetch

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Stage:
    """Two partitions, received up to 10, whose logs end at 20; `asked` are the questions."""

    def __init__(self) -> None:
        self.clock, self.owned = VirtualClock(), OwnedPartitions()
        self.asked: list[Question[Tails]] = []
        self.broken: list[FailedFetch] = []
        for partition in (P0, P1):
            epoch = Epoch(partition, 1, {})
            epoch.received.next_offset = 10
            self.owned[partition] = OwnedPartition(None, epoch)  # type: ignore[arg-type]
            self.owned.logs.answered(partition, LogBounds(0, 20), 0.0)
        self.throttle, self.contact = SimpleNamespace(is_recent=False), SimpleNamespace(is_blind=False)
        self.flow = SimpleNamespace(paused=set[TopicPartition](), has_withheld=False)
        asker = SimpleNamespace(read_tails=self._read)
        context: Any = SimpleNamespace(
            clock=self.clock.now_s, owned=self.owned, flow=self.flow,
            brokers=SimpleNamespace(asker=asker, throttle=self.throttle, contact=self.contact),
        )  # fmt: skip
        self.watch = StandstillWatch(context, self.broken.append)

    def _read(self, tails: Any) -> Question[Tails]:
        self.asked.append(Question(Tails(tails), Mock()))
        return self.asked[-1]

    def look(self, after_s: float = 0.0) -> list[TopicPartition]:
        """Look after a time; return which partitions are read then for the first time."""
        self.clock.advance(after_s)
        before = len(self.asked)
        self.watch.check()
        return [one for question in self.asked[before:] for one in question.answer.asked]

    def answer(self, **found: Any) -> None:
        """Answer the last question, and look."""
        self.asked[-1].answer = self.asked[-1].answer._replace(**found)
        self.asked[-1].done.set()

    def lasts_s(self) -> float:
        """Return for how long the first partition has stood still."""
        return self.owned.standstill.lasts_s(P0, 10, self.clock.now_s())


def test_a_standstill_begins_when_the_log_goes_on_and_ends_with_the_next_record() -> None:
    """Not with the last record: a log that was quiet for an hour is not late at its next record."""
    standstill = Standstill()
    for behind, now_s in (([], 0.0), ([(P0, 7)], 3600.0), ([(P0, 7)], 3610.0)):
        standstill.check(behind, now_s)
    assert (standstill.lasts_s(P0, 7, 3610.0), standstill.lasts_s(P0, 8, 3610.0)) == (10.0, 0.0)
    standstill.check([(P0, 8)], 3611.0)
    assert standstill.lasts_s(P0, 8, 3611.0) == 0.0
    standstill.check([], 3700.0)
    assert standstill.lasts_s(P0, 8, 3700.0) == 0.0


@pytest.mark.parametrize("why", ["paused", "withheld", "throttled", "blind", "at its end"])
def test_who_may_have_something_on_its_way_does_not_stand_still(why: str) -> None:
    """A process that did not run for an hour has not looked: what came meanwhile is on its way."""
    stage = Stage()
    stage.look()
    stage.flow.paused |= {P0, P1} if why == "paused" else set()
    stage.throttle.is_recent, stage.contact.is_blind = why == "throttled", why == "blind"
    for epoch in stage.owned.epochs():
        epoch.received.next_offset = 20 if why == "at its end" else 10
    stage.flow.has_withheld = why == "withheld"
    assert (stage.look(3600.0), stage.lasts_s()) == ([], 0.0)


def test_all_that_stand_still_are_read_and_then_one_by_one_while_it_is_not_known_why() -> None:
    """Of several it is not known whose batch it is. A log is read again after a while, and where it moves."""
    stage = Stage()
    stage.look()
    assert stage.look(SILENT_S - 0.1) == []
    assert stage.look(0.1) == [P0, P1]
    assert stage.owned.standstill.is_unread(P0, 10)
    stage.answer(empty={P1})
    assert stage.look(AGAIN_S / 2) == [P0]
    tail = stage.owned.standstill.tail(P1, 10)
    assert tail is not None
    assert (tail.is_empty, tail.end) == (True, 20)
    assert stage.owned.standstill.is_unread(P0, 10)
    stage.answer(broken={P0})
    assert stage.look(1.0) == []
    assert not stage.owned.standstill.is_unread(P0, 10)
    assert [(one.partition, one.offset) for one in stage.broken] == [(P0, 10)]
    assert stage.look(AGAIN_S) == [P1]
    stage.answer(empty={P1})
    assert stage.look() == [P0]
    stage.answer()
    stage.owned[P0].epoch.received.next_offset = 11
    assert stage.look() == []
    assert stage.look(SILENT_S) == [P0]


def test_a_log_of_which_nothing_was_shown_stays_unread_and_is_read_soon_again() -> None:
    """Its records may be gone, which a run until caught up must hear. But it does not wait for ever."""
    stage = Stage()
    del stage.owned[P1]
    stage.look()
    for _ in range(3):
        assert stage.look(SILENT_S) == [P0]
        stage.answer()
        assert stage.look(5.0) == []
        assert stage.owned.standstill.is_unread(P0, 10)
    stage.contact.is_blind = True
    stage.look(SILENT_S)
    stage.contact.is_blind = False
    stage.look()
    assert stage.look(UNKNOWN_S) == [P0]
    stage.answer()
    assert stage.look(5.0) == []
    assert not stage.owned.standstill.is_unread(P0, 10)
    assert stage.look(AGAIN_S - 1.0) == []
    assert stage.look(1.0) == [P0]
    stage.answer(empty={P0})
    stage.look()
    tail = stage.owned.standstill.tail(P0, 10)
    assert tail is not None
    assert tail.is_empty


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_log_that_has_records_is_read_no_more_for_a_while(*, is_alone: bool) -> None:
    """They come, or what keeps them is no matter of this log."""
    stage = Stage()
    if is_alone:
        del stage.owned[P1]
    stage.look()
    stage.look(SILENT_S)
    stage.answer(full={P0, P1})
    assert stage.look() == []
    assert not stage.owned.standstill.is_unread(P0, 10)


@pytest.mark.parametrize("why", ["throttled", "it moved", "revoked"])
def test_an_answer_that_proves_nothing_any_more_is_dropped(why: str) -> None:
    """A broker that throttles sends empty answers; what is at another place now is read there."""
    stage = Stage()
    stage.look()
    stage.look(SILENT_S)
    stage.answer(empty={P0}, broken=set() if why == "throttled" else {P0})
    stage.throttle.is_recent = why == "throttled"
    stage.owned[P0].epoch.received.next_offset = 11 if why == "it moved" else 10
    if why == "revoked":
        del stage.owned[P0]
    stage.look()
    tail = stage.owned.standstill.tail(P0, 10)
    assert tail is None or not tail.is_empty
    assert stage.broken == []
