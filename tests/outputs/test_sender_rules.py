"""Rules of the sender that random histories seldom need, one by one."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs import sender, unacknowledged
from ehkafka.outputs.batch import BATCH_BYTES, OutputBatch
from ehkafka.outputs.output import BatchSource
from tests.outputs.pretended_broker import PARTITIONS, THROTTLED, TOO_LARGE, Answer
from tests.outputs.sender_calm import ALL, aside, calm, fail, new, parked, put, settle, taken, turn
from tests.outputs.sender_world import FOREVER

if TYPE_CHECKING:
    from ehkafka.outputs.output import Answer as Answered
    from ehkafka.outputs.output import Output


def test_the_second_output_of_a_key_waits_for_the_first() -> None:
    """A broker takes any number as the first: what is ready by then would pass a refused one."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2", b"b3")
        world.sender._hand_over()
        assert parked(world) == [b"a2"]
        world.broker.stands.clear()
        settle(world, b"a4")
        put(world, b"a5", b"a6")
        world.sender._hand_over()
        assert parked(world) == []


def test_without_producer_ids_one_output_of_a_key_is_on_its_way() -> None:
    """There nothing holds back what follows a refused one."""
    with calm() as world:
        world.sender._producer.is_plain = True
        settle(world, b"a1")
        world.broker.stands = set(ALL)
        put(world, b"a2", b"a3", b"b4")
        world.sender._hand_over()
        assert parked(world) == [b"a3"]


def test_a_day_later_no_key_is_known() -> None:
    """The broker may have forgotten the client by then."""
    with calm() as world:
        settle(world, b"a1")
        world.clock.slept_s += 86_400.0
        put(world, b"a2", b"a3")
        world.broker.stands = set(ALL)
        turn(world)
        assert parked(world) == [b"a3"]


def test_what_is_behind_a_refused_one_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would pass an earlier output of its key."""
    with calm() as world:
        settle(world, b"a0")
        monkeypatch.setattr(sender, "SLICE", 1)
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="odd")
        put(world, b"a2")
        world.sender._hand_over()
        assert new(world) == [b"a2"]


def test_outputs_of_two_topics_go_in_batches_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some dead letters among thousands of outputs do not have all of them go one by one."""
    with calm() as world:
        monkeypatch.setattr(sender, "SLICE", 500)
        settle(world, b"a0")
        world.broker.stands = {(topic, partition) for topic in "tu" for partition in range(PARTITIONS)}
        entry: Any = world._entry(world.epochs[0])
        for topic, value in (("t", b"a1"), ("u", b"a2"), ("t", b"a3")):
            world.outputs.put(entry, (world, entry, topic, value, b"a", None, -1), 10)
        world.sender._hand_over()
        found = [[output.value for output in batch] for batch in world.outputs.batches]
        assert sorted(found) == [[b"a1", b"a3"], [b"a2"]]


def test_what_waits_for_the_next_start_is_not_waited_for() -> None:
    """Neither by a revoke nor by a stop; nothing is committed past it, and other keys go on together."""
    with calm() as world:
        world.judge = lambda _output, _error, _tries, answer: answer(inf)  # type: ignore[method-assign]
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="odd")
        turn(world, 10)
        put(world, b"a2", b"b0")
        turn(world, 100)
        assert aside(world) == [b"a1", b"a2"]
        epoch: Any = world.epochs[0]
        assert (epoch in world.outputs.lowest(), world.outputs.waiting_epochs()) == (True, set())
        assert (world.outputs.is_under_way(), world.sender._aside.is_busy) == (False, False)
        world.broker.stands = set(ALL)
        put(world, b"b1", b"b2")
        world.sender._hand_over()
        assert [len(batch) for batch in world.outputs.batches] == [2]
        assert world.outputs.waiting_epochs() == {epoch}


@pytest.mark.parametrize(("too_large", "is_smaller"), [(0, True), (1, False)])
def test_batches_get_smaller_where_all_of_one_pass_alone(*, too_large: int, is_smaller: bool) -> None:
    """Then it was the batch that was too large, and none of its outputs."""
    with calm() as world:
        sender = world.sender
        for value in (b"a1", b"b1"):
            world.broker.stands = set(ALL)
            put(world, value)
            sender._hand_over()
            fail(world, TOO_LARGE)
            sender._renew(is_fault=False)
            sender._aside._passed, sender._aside._still_too_large = 1, too_large
            sender._producer.open_when_due()
        assert sender._producer.batch_bytes == (BATCH_BYTES // 4 if is_smaller else None)


def test_a_refused_output_without_a_key_goes_alone() -> None:
    """Others without one do not wait for it."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"-1")
        world.sender._hand_over()
        fail(world, TOO_LARGE)
        put(world, b"-2")
        world.sender._renew(is_fault=True)
        assert aside(world) == [b"-1"]


def test_what_is_behind_an_accepted_suspect_goes_with_others_again() -> None:
    """One by one it would take a round trip each; of a key with a refused output all go so."""
    answers: list[Answered] = []
    with calm() as world:
        world.judge = lambda _output, _error, _tries, answer: answers.append(answer)  # type: ignore[method-assign]
        settle(world, b"a0", b"d0")
        world.broker.stands = set(ALL)
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", b"d0.5", b"d1")
        world.sender._hand_over()
        put(world, b"a2", b"a3", b"d2", b"d3")
        world.sender._hand_over()
        fail(world, TOO_LARGE)
        world.sender._renew(is_fault=True)
        put(world, b"d4")
        world.broker.stands.clear()
        turn(world, 200)
        assert aside(world) == [b"a1", b"a2", b"a3"]
        assert world.stands_now() == {b"a1", b"a2", b"a3"}
        alone = [one for one in world.clients if one.is_alone]
        assert {value for one in alone for value in one.given} == {b"a1", b"d0.5", b"d1"}
        assert world.broker.logs["t", 1] == [b"a0", b"d0", b"d0.5", b"d1", b"d2", b"d3", b"d4"]
        answers.pop()(None)
        turn(world, 200)
        assert world.outputs.count() == 0
        assert alone[0].given[-2:] == [b"a2", b"a3"]


def test_what_is_in_doubt_is_not_acknowledged() -> None:
    """Nor is what follows: it goes out again behind the first."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1", b"b2")
        world.sender._hand_over()
        for batch, at in zip(list(world.outputs.batches), (None, 2), strict=True):
            world.sender._reports.take(batch, None, Answer(("t", 1), at))
        world.sender._let_go()
        assert world.stands_now() == {b"a1", b"b2"}


def test_no_answer_counts_in_a_partition_where_something_was_refused() -> None:
    """A broker that ignores sequence numbers writes what follows: one report may stand for a refused one."""
    with calm() as world:
        settle(world, b"a0", b"b0", b"d0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"b1", b"d1")
        world.sender._hand_over()
        refused, elsewhere = world.outputs.batches
        world.sender._producer._on_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, "refused", fatal=True))
        world.sender._reports.take(refused, KafkaError(TOO_LARGE), Answer(("t", 1), None))
        put(world, b"d2")
        behind = OutputBatch(list(world.outputs.take(1)), world.sender._reports.take)
        behind.left = 1
        world.outputs.batches[behind] = None
        world.sender._reports.take(behind, None, Answer(("t", 1), 2))
        world.sender._reports.take(elsewhere, None, Answer(("t", 2), 1))
        world.sender._let_go()
        assert world.stands_now() == {b"a1", b"d1", b"d2"}


def test_no_answer_counts_after_a_client_has_ended_for_what_no_report_names() -> None:
    """The refused output may be the first of a batch, whose last one is reported."""
    with calm() as world:
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2")
        world.sender._hand_over()
        [batch] = world.outputs.batches
        world.sender._producer._on_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, "refused", fatal=True))
        world.sender._producer.client.purge()
        batch(None, Answer(("t", 1), 2))
        world.sender._let_go()
        assert world.stands_now() == {b"a1", b"a2"}
        world.broker.stands.clear()
        settle(world, b"b1")


def test_what_is_throttled_goes_not_alone() -> None:
    """One by one would be more requests for a broker that wants fewer. The next client waits for a while."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        fail(world, THROTTLED)
        turn(world)
        assert aside(world) == []
        assert world.stands_now() == {b"a1"}
        assert world.sender._producer.due_s() > 0


def test_a_sender_that_is_behind_lets_nothing_more_be_received(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before workers wait for room; what the client has does not count."""
    monkeypatch.setattr(unacknowledged, "BEHIND", 2)
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1")
        assert not world.outputs.is_behind()
        put(world, b"b2")
        assert world.outputs.is_behind()
        world.sender._hand_over()
        assert not world.outputs.is_behind()


def test_a_put_that_comes_too_late_takes_no_room() -> None:
    """Else a burst of old calls would stall all others for ever."""
    with calm() as world:
        world.epochs[0].ended = True
        with pytest.raises(unacknowledged.NotSentError):
            world.outputs.put(world._entry(world.epochs[0]), (), unacknowledged.OUTPUT_BYTES_MAX)
        assert world.outputs.has_room()
        assert not world.outputs.is_full


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_dying_sender_held_stands_in_a_list(monkeypatch: pytest.MonkeyPatch, *, waits: bool) -> None:
    """The run ends, and its last commit must not pass it."""
    with calm() as world:
        put(world, b"a1", b"b2")
        if waits:
            world.sender._round_robin.add(("t", 1), world.outputs.take(2))
            monkeypatch.setattr(sender, "OutputBatch", lambda *_, **__: int("a bug"))
        else:
            monkeypatch.setattr(world.sender, "_sort", lambda _flat: int("a bug"))
        with pytest.raises(ValueError, match="a bug"):
            world.sender._hand_over()
        assert world.stands_now() == {b"a1", b"b2"}


def test_the_second_producer_is_served_though_nothing_is_aside() -> None:
    """Else its statistics would pile up."""
    with calm() as world:
        aside, served = world.sender._aside, list[float]()
        aside._producer = SimpleNamespace(serve=served.append)  # type: ignore[assignment]
        aside.go_on(waits=False)
        assert served == [0.0]
        aside._producer = None


def test_a_refusal_of_an_ended_epoch_is_not_judged() -> None:
    """Its record is another member's."""
    judged: list[Output] = []
    with calm() as world:
        world.judge = lambda output, *_: judged.append(output)  # type: ignore[method-assign]
        sender = world.sender._aside
        output = taken(world, b"a1")
        world.broker.stands = set(ALL)
        sender.add(output)
        (aside_,) = sender._set_aside.values()
        sender.go_on(waits=False)
        world.epochs[0].ended = True
        sender.drop_ended()
        sender._answered(output.group, aside_, KafkaError(TOO_LARGE), None)
    assert judged == []


def test_an_output_of_a_batch_is_sent_while_one_of_its_epochs_goes_on() -> None:
    """The records of that epoch are handled here alone."""
    with calm() as world:
        source = BatchSource([world._entry(world.epochs[number]) for number in range(2)])
        world.epochs[0].ended = True
        world.outputs.put(source, [world, source, "t", b"a1", b"a", None, -1], 10)
        turn(world, 100)
        assert world.broker.logs["t", 1] == [b"a1"]


def test_what_is_with_a_judge_is_not_sent() -> None:
    """The judge may answer much later, and decides on each refusal once."""
    answers: list[Answered] = []
    with calm() as world:
        world.judge = lambda _output, _error, _tries, answer: answers.append(answer)  # type: ignore[method-assign]
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1")
        for _ in range(3):
            turn(world, 100)
            world.clock.now_s += 60.0
        assert (len(answers), aside(world)) == (1, [b"a1"])


def test_what_is_kept_after_its_epoch_has_ended_is_not_counted() -> None:
    """The judge answers late; a stop would take what is under way for what is kept."""
    answers: list[Answered] = []
    with calm() as world:
        world.judge = lambda _output, _error, _tries, answer: answers.append(answer)  # type: ignore[method-assign]
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="odd")
        turn(world, 3)
        world.epochs[0].ended = True
        world.sender._aside.drop_ended()
        answers.pop()(inf)
        turn(world)
        assert (world.outputs.count(), world.outputs.kept) == (0, set())


def test_a_lost_second_producer_is_followed_by_another() -> None:
    """It is given what was not answered."""
    with calm() as world:
        world.broker.stands = set(ALL)
        world.sender._aside.add(taken(world, b"a1"))
        turn(world)
        second = world.sender._aside._producer
        assert second is not None
        second.failed(KafkaError(KafkaError.UNKNOWN_PRODUCER_ID))
        world.broker.stands.clear()
        world.clock.now_s += 60.0
        turn(world, 5)
        world.clock.now_s += 60.0
        turn(world, 100)
        assert world.outputs.count() == 0
        assert [one.is_alone for one in world.clients] == [False, True, True]


def test_a_second_producer_that_returns_nothing_at_its_purge_loses_no_output() -> None:
    """Such as while its thread resolves a name: what is left of epochs that go on, the next one is given."""
    with calm() as world:
        world.broker.stands = set(ALL)
        ended, kept = taken(world, b"a1"), taken(world, b"b2")
        ended = ended._replace(source=world._entry(world.epochs[1]))
        world.sender._aside.add(ended)
        world.sender._aside.add(kept)
        turn(world)
        world.epochs[1].ended = True
        second = world.clients[-1]

        def purge(**_options: bool) -> None:
            second.is_over = True
            second.has.clear()

        second.purge = purge  # type: ignore[method-assign]
        assert world.sender._aside.drop_ended() == [ended]
        world.broker.stands.clear()
        turn(world, 100)
        assert world.outputs.count() == 0
