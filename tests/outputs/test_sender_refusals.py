"""What the broker refuses, and what waits behind it: rule by rule; without its guard each goes red."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs.answers import busy_codes
from ehkafka.outputs.claim import Claim, Output
from ehkafka.outputs.refusals import Refusals
from ehkafka.outputs.refused import RefusedOutputs
from tests.outputs.sender_bench import GAPLESS, REFUSED, WAYS, Bench, Report


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


def test_it_is_no_fault_either_where_the_refused_outputs_epoch_has_ended(bench: Bench) -> None:
    """Nobody decides on it any more, and its producer ended because of it all the same."""
    bench.add("a0")
    bench.turn()
    bench.epoch.ended = True
    bench.book.end([bench.epoch])
    bench.main.client.answer(1, REFUSED)
    bench.main.is_lost = True
    bench.turn(2)
    assert bench.main.faults == [False]


def test_the_second_producer_hears_of_each_refusal(bench: Bench) -> None:
    """Refusals raise its epoch; what it does not hear of counts as a sign that its id is gone."""
    bench.delays_s = [0.0, 0.0, None]
    refuse_one(bench)
    for _ in range(3):
        bench.second.client.answer(1, REFUSED)
        bench.turn(2)
    assert (bench.second.errors, bench.second.faults) == (3, [])


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
    bench.judged[-1][2](None)
    bench.turn(2)
    assert bench.main.client.values() == "b1 a2"
    assert bench.waiting == {1, 2}


def refuse_a_batch(bench: Bench) -> list[tuple[str, str]]:
    """Refuse a batch for b3; return what goes alone, and what then goes on."""
    bench.add("a0 a1 a2 b3")
    bench.turn()
    bench.main.client.answer(4, REFUSED)
    bench.main.is_lost = True
    bench.add("a4")
    bench.turn(3)
    went = []
    for _ in range(4):
        went.append((bench.second.client.values(), bench.main.client.values()))
        for value in bench.second.client.values().split():
            bench.second.client.answer(1, REFUSED if value == "b3" else None)
        bench.turn(2)
    return went


def test_all_of_a_batch_that_was_refused_go_alone_each_once(bench: Bench) -> None:
    """Together they would be refused again: a key with thousands of them would come no further."""
    assert refuse_a_batch(bench) == [("a0 b3", ""), ("a1", ""), ("a2", ""), ("", "a4")]
    assert [judged[:2] for judged in bench.judged] == [(b"b3", 1)]


def test_mutant_only_the_first_of_each_key_goes_alone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others go together once more."""
    monkeypatch.setattr(Output, "is_suspect", property(lambda _self: False, lambda _self, _value: None))
    assert refuse_a_batch(bench)[1] == ("", "a1 a2 a4")


def refuse_behind_one_on_its_way(bench: Bench) -> str:
    """Refuse a1 while a0 is not answered; return what the second producer has."""
    bench.add("a0 a1")
    bench.turn()
    # The client itself refuses the second one.
    (value, key, refused) = bench.main.client.sent.pop()
    refused(KafkaError(REFUSED), Report(key, value))
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
    monkeypatch.setattr(RefusedOutputs, "_earliest_in_flight", lambda _self: {})
    assert refuse_behind_one_on_its_way(bench) == "a1"


def refuse_before_next(bench: Bench) -> Claim:
    """Refuse the first of two outputs of one call, a0 and a1, whose key waits; a2 is another call's."""
    claim = Claim(None, ((bench.epoch, 0),), None, 1)  # type: ignore[arg-type]
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
    bench.sender._refused._clock = lambda: now_s
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
    value, key, refused = bench.main.client.sent.pop(1)
    refused(KafkaError(REFUSED), Report(key, value))
    bench.main.is_lost = True
    bench.turn(3)
    return bench.main.client.values(), bench.second.client.values()


def test_an_earlier_one_that_is_sent_again_goes_before_the_refused_one(bench: Bench) -> None:
    """It does not wait behind what was made later, also where it is refused itself."""
    assert lose_one_before_a_refused_one(bench) == ("a0", "")
    bench.main.client.answer(1, REFUSED)
    bench.turn(2)
    for value in ("a0", "a1"):
        assert (bench.main.client.values(), bench.second.client.values()) == ("", value)
        bench.second.client.answer()
        bench.turn(2)
    # What waited goes on by the main producer, in its order.
    assert bench.main.client.values() == "a2"
    assert bench.waiting == {2}


def test_mutant_an_earlier_one_waits_behind_the_refused_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one would be written first."""
    monkeypatch.setattr(Refusals, "is_earlier", lambda *_: False)
    assert lose_one_before_a_refused_one(bench) == ("", "a1")


def test_what_went_alone_meanwhile_is_not_sent_again(bench: Bench) -> None:
    """The first producer is given up and its successor takes nothing yet; all stands in the queue again."""
    bench.add("b0 a1")
    bench.turn()
    value, key, refused = bench.main.client.sent.pop()
    refused(KafkaError(REFUSED), Report(key, value))
    bench.turn()
    bench.main.client.answer()
    bench.add("b2")
    bench.turn(2)
    assert bench.second.client.values() == "a1"
    bench.main.renew()
    bench.sender._queue.extend(output for output in bench.book.take_all())
    bench.second.client.answer()
    bench.turn(2)
    assert (bench.second.client.values(), bench.waiting) == ("", {2})


@pytest.mark.parametrize("way", WAYS)
def test_what_waits_behind_a_refused_output_of_an_ended_epoch_passes_nothing(way: str) -> None:
    """One key may come of two partitions; an earlier output has just been let go by its first answer."""
    bench = Bench(at_once=False, way=way, reports="each")
    other = bench.assign(1)
    bench.add("a0")
    bench.turn()
    bench.main.client.answer()
    bench.turn()
    bench.add("a1 a2")
    bench.add("a3", other)
    bench.turn()
    value, key, refused = bench.main.client.sent.pop()
    refused(KafkaError(REFUSED), Report(key, value))
    bench.main.is_lost = True
    bench.add("a4")
    bench.turn(2)
    assert bench.main.client.values() == "a1"
    other.ended = True
    bench.book.end([other])
    bench.main.client.answer()
    bench.turn(3)
    assert bench.main.client.values() == "a2 a4"


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
    bench.sender._refused._clock = lambda: now_s
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
