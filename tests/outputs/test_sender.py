"""The rules of order, one by one, with a producer that a test answers; without its guard each goes red."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.lanes.assignment import Assignment
from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.book import NotSentError, OutputBook
from ehkafka.outputs.claim import Claim, Output
from ehkafka.outputs.refusals import Refusals
from ehkafka.outputs.sender import OutputSender
from ehkafka.records import TopicPartition

REFUSED = KafkaError.INVALID_RECORD
GAPLESS = KafkaError._GAPLESS_GUARANTEE


class Client:
    """Keeps what it was given, until the test answers it."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, Any]] = []

    def produce(
        self, _topic: str, value: bytes, _key: Any, _partition: int, on_delivery: Any, *, headers: Any
    ) -> None:
        """Take a message."""
        assert headers is None
        self.sent.append((value, on_delivery))

    def values(self) -> str:
        """Return what it has, not answered."""
        return b" ".join(value for value, _ in self.sent).decode()

    def answer(self, count: int = 1, code: int | None = None) -> None:
        """Answer the oldest ones."""
        for _ in range(count):
            _, on_delivery = self.sent.pop(0)
            on_delivery(None if code is None else KafkaError(code), None)


class Producer:
    """One client after another."""

    def __init__(self) -> None:
        self.clients = [Client()]
        self.faults: list[bool] = []
        self.waits: list[bool] = []
        self.is_lost = False
        self.problem = None

    @property
    def client(self) -> Client:
        """The one that is open."""
        return self.clients[-1]

    def give_up(self, _answers_s: float) -> None:
        """Take back what was not answered."""
        self.clients[-1].answer(len(self.clients[-1].sent), KafkaError._PURGE_INFLIGHT)

    def renew(self, *, is_fault: bool = True, waits: bool = False) -> None:
        """Give it up, and be open again."""
        self.give_up(0.0)
        self.faults.append(is_fault)
        self.waits.append(waits)
        self.is_lost = False
        self.clients.append(Client())

    def failed(self, _error: KafkaError) -> None:
        """Note what ended it."""
        self.is_lost = True

    def serve(self, _timeout_s: float) -> None:
        """Answer nothing by itself."""

    def acknowledged(self) -> None:
        """Note nothing."""

    def open_when_due(self) -> None:
        """Be open already."""


class Bench:
    """A book, its sender driven step by step, and one partition."""

    def __init__(self) -> None:
        self.book = OutputBook()
        self.main, self.second = Producer(), Producer()
        self.judged: list[tuple[bytes | None, int, Any]] = []
        self.delays_s: list[float | None] = []
        self.sender = OutputSender(
            self.book,
            self.main,  # type: ignore[arg-type]
            lambda: self.second,  # type: ignore[arg-type, return-value]
            judge_of=lambda _output: self.judge,
            emit=lambda _event: None,
            on_death=lambda _error: None,
            busy=busy_codes(is_event_hubs=True),
        )
        self.assignment = self.assign()
        self.offset = 0

    def assign(self, partition: int = 0) -> Assignment:
        """Begin an epoch."""
        return Assignment(TopicPartition("t", partition), 1)

    def judge(self, output: Output, _error: Exception, attempt: int, done: Any) -> float | None:
        """Do as the test says."""
        self.judged.append((output.value, attempt, done))
        return self.delays_s.pop(0) if self.delays_s else None

    def add(self, text: str, assignment: Assignment | None = None) -> None:
        """Add outputs such as `a1`: a key and a number, each of a record of its own."""
        for word in text.split():
            claim = Claim(None, ((assignment or self.assignment, self.offset),), None, 1)  # type: ignore[arg-type]
            self.offset += 1
            self.book.add(claim, [Output(claim, "out", word.encode(), word[:1].encode(), None, -1, 2)])

    def turn(self, turns: int = 1) -> None:
        """Let the sender go round."""
        for _ in range(turns):
            self.sender._wake.set()
            self.sender._turn()

    @property
    def waiting(self) -> set[int]:
        """Offsets that must not be committed."""
        return set(self.book.waiting(self.assignment))


@pytest.fixture
def bench() -> Bench:
    """Return a bench."""
    return Bench()


def test_an_input_waits_until_its_output_is_safe(bench: Bench) -> None:
    """From being made to the acknowledgement, and no longer."""
    bench.add("a0 b1")
    assert bench.waiting == {0, 1}
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    assert bench.waiting == {1}
    bench.main.client.answer()
    bench.turn()
    assert bench.waiting == set()
    assert bench.book.count() == 0


def lose_the_producer(bench: Bench) -> str:
    """Answer one of three, lose the producer, add one; return what the next one is given."""
    bench.add("a0 b1 a2")
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    bench.main.is_lost = True
    bench.add("b3")
    bench.turn(2)
    return bench.main.client.values()


def test_a_new_producer_sends_what_is_not_safe_in_its_old_order_before_anything_new(bench: Bench) -> None:
    """Exactly what the broker has not acknowledged."""
    assert lose_the_producer(bench) == "b1 a2 b3"
    assert bench.main.faults == [True]


def test_mutant_a_new_producer_is_given_what_is_new_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the book as the truth, what the old producer had is lost."""
    monkeypatch.setattr(OutputBook, "take_all", OutputBook.take_new)
    assert lose_the_producer(bench) != "b1 a2 b3"


def refuse_one(bench: Bench) -> tuple[str, str]:
    """Refuse a0 and let its producer end; return what the main one and the second one then have."""
    bench.add("a0 b1 a2")
    bench.turn()
    bench.main.client.answer(1, REFUSED)
    bench.main.client.answer(2, GAPLESS)
    bench.turn(3)
    return bench.main.client.values(), bench.second.client.values()


def test_what_is_refused_goes_alone_and_the_later_ones_of_its_key_wait(bench: Bench) -> None:
    """Other keys go on; the handler is asked only when it is refused alone."""
    assert refuse_one(bench) == ("b1", "a0")
    assert bench.judged == []
    bench.add("a3")
    bench.turn()
    bench.second.client.answer()
    bench.turn(2)
    assert bench.main.client.values() == "b1 a2 a3"
    assert bench.waiting == {1, 2, 3}


def test_a_producer_that_ends_with_a_refused_output_is_no_fault(bench: Bench) -> None:
    """Also where its end is known before the answer: a wait would grow with each refused output."""
    bench.add("a0")
    bench.turn()
    bench.main.is_lost = True
    bench.main.give_up = lambda _answers_s: bench.main.client.sent and bench.main.client.answer(1, REFUSED)  # type: ignore[method-assign, assignment]
    bench.turn()
    assert bench.main.faults == [False]


def test_mutant_the_later_ones_of_its_key_do_not_wait(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would pass it."""
    monkeypatch.setattr(Refusals, "blocks", lambda self, output: any(one.head is output for one in self))
    assert refuse_one(bench)[0] == "b1 a2"


def test_refused_alone_its_rules_decide_and_the_later_ones_go_on_then(bench: Bench) -> None:
    """Two tries, each counted, and then it is not needed any more."""
    bench.delays_s = [0.0, None]
    refuse_one(bench)
    for attempt in (1, 2):
        bench.second.client.answer(1, REFUSED)
        bench.turn(2)
        assert bench.judged[-1][:2] == (b"a0", attempt)
    assert bench.waiting == {0, 1, 2}
    bench.judged[-1][2]()
    bench.turn(2)
    assert bench.main.client.values() == "b1 a2"
    assert bench.waiting == {1, 2}


def refuse_behind_one_on_its_way(bench: Bench) -> str:
    """Refuse a1 while a0 is not answered; return what the second producer has."""
    bench.add("a0 a1")
    bench.turn()
    # The client itself refuses the second one.
    (_, refused) = bench.main.client.sent.pop()
    refused(KafkaError(REFUSED), None)
    bench.turn(2)
    return bench.second.client.values()


def test_what_is_refused_goes_alone_only_behind_the_earlier_ones_of_its_key(bench: Bench) -> None:
    """Two producers know nothing of each other."""
    assert refuse_behind_one_on_its_way(bench) == ""
    bench.main.client.answer()
    bench.turn(2)
    assert bench.second.client.values() == "a1"


def test_mutant_it_goes_alone_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would pass the earlier one."""
    monkeypatch.setattr(OutputSender, "_has_earlier", lambda _self, _head: False)
    assert refuse_behind_one_on_its_way(bench) == "a1"


def refuse_before_next(bench: Bench) -> Claim:
    """Refuse the first of two outputs of one call, a0 and a1, whose key waits; a2 is another call's."""
    claim = Claim(None, ((bench.assignment, 0),), None, 1)  # type: ignore[arg-type]
    claim.is_before_next = True
    bench.book.add(claim, [Output(claim, "out", b"a%d" % n, b"a", None, -1, 2) for n in range(2)])
    bench.turn()
    bench.main.client.answer(1, REFUSED)
    bench.main.client.answer(1, GAPLESS)
    bench.turn(2)
    assert bench.second.client.values() == "a0"
    return claim


def test_before_next_what_an_attempt_sent_behind_its_refused_output_is_not_sent(bench: Bench) -> None:
    """The attempt fails as a whole, and the retry sends both again, in order."""
    claim, failures = refuse_before_next(bench), []
    claim.on_refused = failures.append
    bench.second.client.answer(1, REFUSED)
    bench.add("a2")
    bench.turn(2)
    assert len(failures) == 1
    assert bench.judged == []
    assert bench.main.client.values() == "a2"
    assert bench.waiting == {0}
    assert claim.unsettled == 0


def test_before_next_an_output_refused_during_the_call_waits_for_its_end(bench: Bench) -> None:
    """Nobody can let an attempt fail that still runs, and the policy is not asked instead."""
    now_s = 0.0
    bench.sender._clock = lambda: now_s
    claim, failures = refuse_before_next(bench), []
    bench.second.client.answer(1, REFUSED)
    bench.turn(2)
    assert (bench.judged, bench.second.client.values()) == ([], "")
    claim.on_refused = failures.append
    now_s = 1.0
    bench.turn()
    bench.second.client.answer(1, REFUSED)
    assert len(failures) == 1


def test_before_next_a_refused_output_of_an_attempt_that_failed_is_let_go(bench: Bench) -> None:
    """The retry sends it again."""
    claim = refuse_before_next(bench)
    claim.has_failed = True
    bench.second.client.answer(1, REFUSED)
    bench.turn(2)
    assert bench.waiting == set()
    assert bench.main.client.values() == ""


def lose_one_before_a_refused_one(bench: Bench) -> tuple[str, str]:
    """Refuse a1 while a0 is not answered, and lose their producer; return what the next two have."""
    bench.add("a0 a1 a2")
    bench.turn()
    _, refused = bench.main.client.sent.pop(1)
    refused(KafkaError(REFUSED), None)
    bench.main.is_lost = True
    bench.turn(3)
    return bench.main.client.values(), bench.second.client.values()


def test_an_earlier_one_that_is_sent_again_goes_before_the_refused_one(bench: Bench) -> None:
    """It does not wait behind what was made later, also where it is refused itself."""
    assert lose_one_before_a_refused_one(bench) == ("a0", "")
    bench.main.client.answer(1, REFUSED)
    bench.turn(2)
    for value in ("a0", "a1"):
        assert bench.second.client.values() == value
        bench.second.client.answer()
        bench.turn(2)
        if value == "a0":
            # What waited goes on by the main producer, in its order.
            assert bench.main.client.values() == "a1 a2"
            bench.main.client.answer(1, REFUSED)
            bench.main.client.answer(1, GAPLESS)
            bench.turn(3)
    assert bench.main.client.values() == "a2"
    assert bench.waiting == {2}


def test_mutant_an_earlier_one_waits_behind_the_refused_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one would be written first."""
    monkeypatch.setattr(Refusals, "is_earlier", lambda *_: False)
    assert lose_one_before_a_refused_one(bench) == ("", "a1")


def end_an_epoch(bench: Bench) -> str:
    """End a partition with an output on its way; return what the next producer has."""
    other = bench.assign(1)
    bench.add("a0", other)
    bench.add("b1")
    bench.turn()
    other.ended = True
    assert bench.book.end([other])
    bench.sender._purges.append(done := threading.Event())
    bench.turn(2)
    assert done.is_set()
    return bench.main.client.values()


def test_an_epochs_end_takes_its_outputs_back_and_sends_the_others_again(bench: Bench) -> None:
    """The producer that had them is given up before the partition may be another's."""
    assert end_an_epoch(bench) == "b1"
    assert len(bench.main.clients) == 2
    assert bench.main.faults == [False]
    assert bench.waiting == {1}


def test_mutant_the_producer_keeps_what_an_ended_epoch_has_left(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old owner's output could come behind what the new one sends."""
    monkeypatch.setattr(OutputSender, "_renew", lambda _self, **_: None)
    assert end_an_epoch(bench) == "a0 b1"


def test_nothing_is_taken_of_an_epoch_that_has_ended(bench: Bench) -> None:
    """A handler that comes back late has its record fail, and nothing is sent."""
    bench.assignment.ended = True
    with pytest.raises(NotSentError, match="taken away"):
        bench.add("a0")
    assert bench.book.count() == 0


@pytest.mark.parametrize("code", [KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaError.POLICY_VIOLATION])
def test_what_a_broker_refuses_to_throttle_goes_out_again_as_it_was(bench: Bench, code: int) -> None:
    """By the next producer after a wait, in its order; nobody is asked, and nothing goes alone."""
    bench.add("a0 b1 a2")
    bench.turn()
    bench.main.client.answer(1, code)
    bench.main.client.answer(2, GAPLESS)
    bench.turn(2)
    assert bench.main.client.values() == "a0 b1 a2"
    assert bench.main.waits == [True]
    assert (bench.judged, bench.second.client.sent, bench.waiting) == ([], [], {0, 1, 2})


def test_a_policy_violation_elsewhere_than_on_event_hubs_is_a_refusal(bench: Bench) -> None:
    """There a broker's policy forbids the message."""
    bench.sender._busy = busy_codes(is_event_hubs=False)
    bench.add("a0")
    bench.turn()
    bench.main.client.answer(1, KafkaError.POLICY_VIOLATION)
    bench.turn()
    assert bench.second.client.values() == "a0"


def test_a_refused_output_that_is_throttled_waits_longer_each_time_and_counts_no_try(bench: Bench) -> None:
    """Its handler is asked when it is refused for what it is."""
    now_s = 0.0
    bench.sender._clock = lambda: now_s
    refuse_one(bench)
    for due_s in (0.5, 1.5):
        bench.second.client.answer(1, KafkaError.POLICY_VIOLATION)
        now_s = due_s - 0.1
        bench.turn(2)
        assert bench.second.client.values() == ""
        now_s = due_s
        bench.turn()
        assert bench.second.client.values() == "a0"
    bench.second.client.answer(1, REFUSED)
    assert [attempt for _, attempt, _ in bench.judged] == [1]
