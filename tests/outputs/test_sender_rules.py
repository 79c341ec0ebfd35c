"""Rules of the sender that random histories seldom need, one by one."""

from __future__ import annotations

from contextlib import contextmanager
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka.outputs import sender, unacknowledged
from ehkafka.outputs.batch import BATCH_BYTES
from ehkafka.outputs.output import Output
from ehkafka.outputs.unacknowledged import PARTS
from tests.outputs.pretended_broker import PARTITIONS, THROTTLED, TOO_LARGE, Answer
from tests.outputs.sender_sources import Waiter
from tests.outputs.sender_world import FOREVER, World, in_a_world

if TYPE_CHECKING:
    from collections.abc import Iterator


ALL = {("t", partition) for partition in range(PARTITIONS)}


@contextmanager
def calm() -> Iterator[World]:
    """Give a world where all is well, and where only the test acts."""
    with in_a_world(3) as world:
        world.broker.throttles = world.broker.forgets = world.broker.loses = 0.0
        world.fails_to_open = world.refuse_share = 0.0
        world.room, world.may_act = FOREVER, False
        world.sender._at_once = True
        world.outputs._outputs_max = 1000
        world.sender._producer.start(0)
        world.judge = lambda *_: None  # type: ignore[method-assign]
        yield world


def put(world: World, *values: bytes, partition: int = -1, headers: Any = None, waits: bool = False) -> None:
    """Put outputs whose keys are their first letters; a dash is none."""
    entry: Any = world._entry(world.epochs[0])
    if waits:
        entry = Waiter(entry)
        entry.world, entry.takes, entry.count_acknowledged, entry.end = world, False, 0, None
        entry.values = list(values)
    flat: list[Any] = []
    for value in values:
        flat += (world, entry, "t", value, value[:1].strip(b"-") or None, headers, partition)
    world.outputs.put(entry, flat, 10)


def turn(world: World, times: int = 1) -> None:
    """Let the sender go round."""
    for _ in range(times):
        world.sender._turn()


def parked(world: World) -> list[bytes]:
    """Return what waits for the first answer of its key."""
    return world.outputs.parked[3::PARTS]


def aside(world: World) -> list[bytes | None]:
    """Return what goes alone."""
    return [one.value for queue in world.outputs.aside.values() for one in queue]


def settle(world: World, *values: bytes) -> None:
    """Have some written and acknowledged."""
    put(world, *values)
    for _ in range(100):
        if not world.outputs.count():
            return
        turn(world)
    pytest.fail("not acknowledged")


def test_the_second_output_of_a_key_waits_for_the_first() -> None:
    """A broker takes any number as the first: what is ready by then would pass a refused one."""
    with calm() as world:
        put(world, b"a1", b"a2", b"b3")
        world.sender._hand_over()
        assert parked(world) == [b"a2"]
        settle(world, b"a4")
        put(world, b"a5", b"a6")
        world.sender._hand_over()
        assert parked(world) == []


def test_without_producer_ids_one_output_of_a_key_is_on_its_way() -> None:
    """There nothing holds back what follows a refused one."""
    with calm() as world:
        world.sender._producer.is_plain = True
        settle(world, b"a1")
        put(world, b"a2", b"a3", b"b4")
        world.sender._hand_over()
        assert parked(world) == [b"a3"]
        settle(world)


def test_where_each_is_reported_each_is_a_batch() -> None:
    """The client may give up one and write the next."""
    with calm() as world:
        world.sender._at_once = False
        settle(world, b"a1")
        world.broker.stands = set(ALL)
        put(world, b"a2", b"a3")
        world.sender._hand_over()
        assert list(map(len, world.outputs.batches)) == [1, 1]


def test_outputs_with_headers_are_acknowledged_by_the_last_report() -> None:
    """Each of a batch has its report then."""
    with calm() as world:
        settle(world, b"a1")
        world.broker.stands = set(ALL)
        put(world, b"a2", b"a3", headers=[("h", b"")])
        world.sender._hand_over()
        [batch] = world.outputs.batches
        for left in (2, 1):
            assert (batch.left, world.outputs.count()) == (left, 2)
            batch(None, Answer(("t", ord("a") % PARTITIONS), 1))
        assert world.outputs.count() == 0


def test_a_key_with_a_partition_is_a_key_of_its_own() -> None:
    """Its client may have nothing there yet."""
    with calm() as world:
        settle(world, b"a1")
        put(world, b"a2", b"a3", partition=1)
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


def test_what_the_client_refuses_ends_it_and_goes_alone() -> None:
    """As what the broker refuses: nothing is handed over behind it, and its key goes on alone."""
    with calm() as world:
        world.broker.stands = set(ALL)
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"b1")
        put(world, b"a1", headers="large")
        put(world, b"a2", b"c3")
        world.sender._hand_over()
        assert [value for batch in world.outputs.batches for _, _, _, value, *_ in batch] == [b"b1", b"a1"]
        world.sender._renew(is_fault=True)
        assert (aside(world), parked(world)) == ([b"a1"], [b"b1"])
        turn(world)
        assert aside(world) == [b"a1", b"a2"]


def test_a_topic_made_anew_with_fewer_partitions_keeps_each_keys_order() -> None:
    """What is on its way to a partition that is gone goes again, before what is put later."""
    with calm() as world:
        settle(world, b"b0")
        gone = "t", b"b"[0] % PARTITIONS
        world.broker.stands = {gone}
        put(world, b"b1")
        world.sender._hand_over()
        world.clients[-1]._send(gone)
        world.broker.partitions = gone[1]
        put(world, b"b2", b"b3")
        turn(world, 300)
        assert world.stands_now() == set()
        assert [one for one in world.broker.logs["t", 0] if one != b"b0"] == [b"b1", b"b2", b"b3"]


def test_later_ones_of_a_refused_key_go_alone() -> None:
    """Behind it, in their order."""
    with calm() as world:
        settle(world, b"a0")
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="large")
        turn(world)
        put(world, b"a2", b"a3")
        turn(world)
        assert aside(world) == [b"a1", b"a2", b"a3"]


def test_what_the_client_refuses_first_of_all_is_tried_alone() -> None:
    """There is nothing on its way that it would have to wait for."""
    judged: list[Output] = []
    with calm() as world:
        world.judge = lambda output, *_: judged.append(output)  # type: ignore[method-assign]
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="odd")
        turn(world, 3)
    assert [output.value for output in judged] == [b"a1"]


def test_what_is_parked_behind_a_refused_one_is_not_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would pass an earlier output of its key."""
    with calm() as world:
        settle(world, b"a0")
        monkeypatch.setattr(sender, "SLICE", 1)
        world.broker.refuses[b"a1"] = FOREVER
        put(world, b"a1", headers="odd")
        put(world, b"a2")
        world.outputs.parked = world.outputs.take(2)
        world.sender._unparks = True
        world.sender._hand_over()
        assert parked(world) == [b"a2"]


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


def fail(world: World, code: int) -> None:
    """Have the client report that its first batch failed."""
    batch = next(iter(world.outputs.batches))
    world.sender._reported(batch, KafkaError(code), Answer(("t", 1), None))


def test_refusals_are_no_faults_of_their_clients() -> None:
    """So the next one is opened at once, however often."""
    with calm() as world:
        world.broker.stands = set(ALL)
        for value in (b"a1", b"b2", b"c3"):
            put(world, value)
            world.sender._hand_over()
            fail(world, TOO_LARGE)
            turn(world)
            assert world.sender._producer.due_s() == 0


@pytest.mark.parametrize(("too_large", "is_smaller"), [(0, True), (1, False)])
def test_batches_get_smaller_where_all_of_one_pass_alone(*, too_large: int, is_smaller: bool) -> None:
    """Then it was the batch that was too large, and none of its outputs."""
    with calm() as world:
        sender = world.sender
        for _ in range(2):
            world.broker.stands = set(ALL)
            put(world, b"a1")
            sender._hand_over()
            fail(world, TOO_LARGE)
            sender._mind_size()
            sender._aside.passed, sender._aside.too_large = 1, too_large
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


def test_a_throttled_client_is_followed_after_a_wait() -> None:
    """The broker wants less."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        fail(world, THROTTLED)
        turn(world)
        assert world.sender._producer.due_s() > 0


def test_what_is_in_doubt_is_not_acknowledged() -> None:
    """Nor is what follows: it goes out again behind the first."""
    with calm() as world:
        put(world, b"a1", b"b2")
        world.sender._hand_over()
        for batch, at in zip(list(world.outputs.batches), (None, 2), strict=True):
            world.sender._reported(batch, None, Answer(("t", 1), at))
        assert world.stands_now() == {b"a1", b"b2"}


def test_what_is_throttled_goes_not_alone() -> None:
    """One by one would be more requests for a broker that wants fewer."""
    with calm() as world:
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        fail(world, THROTTLED)
        turn(world)
        assert aside(world) == []
        assert world.stands_now() == {b"a1"}


def test_what_is_parked_goes_behind_what_its_client_had() -> None:
    """Alone, where that is refused; what is of other keys stays."""
    with calm() as world:
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        fail(world, TOO_LARGE)
        put(world, b"a2", b"a3", b"b4")
        world.outputs.parked = world.outputs.take(3)
        world.sender._renew(is_fault=True)
        assert aside(world) == [b"a1", b"a2", b"a3"]
        assert parked(world) == [b"b4"]


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


@pytest.mark.parametrize("is_parked", [False, True])
def test_what_a_dying_sender_held_stands_in_a_list(
    monkeypatch: pytest.MonkeyPatch, *, is_parked: bool
) -> None:
    """The run ends, and its last commit must not pass it."""
    with calm() as world:
        put(world, b"a1", b"b2")
        if is_parked:
            world.outputs.parked = world.outputs.take(2)
            world.sender._unparks = True
        monkeypatch.setattr(world.sender, "_hand_slice", lambda _flat: int("a bug"))
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


def test_a_batch_is_no_larger_than_the_clients_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would take a part of it, and report none."""
    monkeypatch.setattr(sender, "QUEUE_MESSAGES", 3)
    with calm() as world:
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2", b"a3", b"a4", b"a5")
        world.sender._hand_over()
        assert sum(map(len, world.outputs.batches)) == 3
        assert world.stands_now() == {b"a1", b"a2", b"a3", b"a4", b"a5"}
        assert world.sender._is_full


def taken(world: World, value: bytes) -> Output:
    """Put an output, and return it as the sender takes it."""
    put(world, value)
    return Output(*world.outputs.take(1))


def test_partitions_that_stand_hold_up_no_others() -> None:
    """What is written elsewhere is acknowledged."""
    with calm() as world:
        settle(world, b"a0", b"b0", b"c0")
        world.broker.stands = {("t", b"a"[0] % 3)}
        put(world, b"a1", b"b1", b"c1")
        turn(world, 300)
        assert world.stands_now() == {b"a1"}
        assert len(world.clients) == 1
        world.broker.stands.clear()
        turn(world, 300)
        assert world.stands_now() == set()


def test_a_refusal_of_an_ended_epoch_is_not_judged() -> None:
    """Its record is another member's."""
    judged: list[Output] = []
    with calm() as world:
        world.judge = lambda output, *_: judged.append(output)  # type: ignore[method-assign]
        sender = world.sender._aside
        output = taken(world, b"a1")
        world.broker.stands = set(ALL)
        sender.add(output)
        (turn_,) = sender._turns.values()
        sender.go_on(waits=False)
        world.epochs[0].ended = True
        sender.drop_ended()
        sender._answered(output.group, turn_, KafkaError(TOO_LARGE), None)
    assert judged == []


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
