"""Partitions take turns, with one batch each, and what a batch has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.outputs import sender
from ehkafka.outputs.batch import MESSAGE_BYTES, ONE_BY_ONE, REQUEST_BYTES
from ehkafka.outputs.known_keys import COUNTS_S
from ehkafka.outputs.one_producer import OneProducer
from ehkafka.outputs.round_robin import TURN_S
from tests.outputs.pretended_broker import PARTITIONS, Answer
from tests.outputs.sender_calm import ALL, calm, new, parked, put, settle, sizes, turn
from tests.outputs.sender_sources import Epoch

if TYPE_CHECKING:
    import pytest


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
            world.sender._let_go()
        assert world.outputs.count() == 0


def test_a_partition_has_one_batch_on_its_way() -> None:
    """What is put meanwhile goes together, and as much as one request takes."""
    with calm() as world:
        world.sender._batch_outputs = 3
        settle(world, b"a0", b"b0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"b1")
        world.sender._hand_over()
        put(world, b"a2", b"a3", b"a4", b"a5")
        world.sender._hand_over()
        assert sizes(world) == [1, 1]
        world.broker.stands.clear()
        while any(batch.flat[3] == b"a1" for batch in world.outputs.batches):
            world.sender._producer.serve(0.1)
            world.sender._let_go()
        world.broker.stands = set(ALL)
        world.sender._hand_over()
        assert sizes(world)[-1] == 3


def test_so_many_partitions_have_one_on_its_way_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client is not fair to those that are ready. One that does not answer is none of them."""
    with calm() as world:
        monkeypatch.setattr(OneProducer, "batches_max", 1)
        settle(world, b"a0", b"b0", b"c0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"b1", b"c1")
        world.sender._hand_over()
        assert sizes(world) == [1]
        world.sender._hand_over()
        assert sizes(world) == [1]
        world.clock.now_s += TURN_S
        world.sender._hand_over()
        assert sizes(world) == [1, 1]


def test_keys_that_are_forgotten_wait_in_no_line() -> None:
    """Else what is put later would pass them, as the first output of its key."""
    with calm() as world:
        settle(world, b"a0")
        world.clock.slept_s += COUNTS_S
        turn(world)
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        put(world, b"a2")
        world.sender._hand_over()
        world.clock.slept_s += COUNTS_S
        turn(world)
        put(world, b"a3")
        world.sender._hand_over()
        assert [batch.flat[3] for batch in world.outputs.batches] == [b"a1", b"a2"]
        assert parked(world) == [b"a3"]


def test_what_waits_when_its_epoch_ends_lets_its_partition_go_on() -> None:
    """Its line is empty then, and takes others."""
    with calm() as world:
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1")
        world.sender._hand_over()
        put(world, b"a2")
        world.sender._hand_over()
        world.epochs[0].ended = True
        world.outputs.end()
        world.epochs[0] = Epoch(0)
        world.broker.stands.clear()
        turn(world, 100)
        assert world.outputs.count() == 0
        settle(world, b"a3")


def test_a_batch_is_no_larger_than_the_clients_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client would take a part of it, and report none."""
    monkeypatch.setattr(sender, "QUEUE_MESSAGES", 3)
    with calm() as world:
        settle(world, b"a0", b"b0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2", b"a3", b"a4", b"b5")
        world.sender._hand_over()
        assert sizes(world) == [3]
        assert world.stands_now() == {b"a1", b"a2", b"a3", b"a4", b"b5"}
        assert world.sender._is_full


def test_a_batch_fits_into_one_request() -> None:
    """Else its report would not say that its first part was refused."""
    with calm() as world:
        world.sender._producer.batch_bytes = REQUEST_BYTES + 2 * (MESSAGE_BYTES + 3)
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2", b"a3", b"a4", b"a5")
        world.sender._hand_over()
        assert sizes(world) == [2]


def test_where_each_message_goes_in_a_request_of_its_own_each_is_reported() -> None:
    """Else the last one's report would not say that another one was refused: all would go again for ever."""
    with calm() as world:
        world.sender._producer.batch_bytes = ONE_BY_ONE
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, b"a1", b"a2", b"a3")
        world.sender._hand_over()
        [batch] = world.outputs.batches
        assert (len(batch), batch.left) == (3, 3)


def test_what_waits_beyond_some_turns_shows_that_the_sender_is_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the intake went on until workers waited for room, and their calls looked like slow ones."""
    with calm() as world:
        monkeypatch.setattr(sender, "SLICE", 2)
        monkeypatch.setattr(sender, "LINES_MAX", 2)
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, *[b"a%d" % number for number in range(1, 10)])
        world.sender._hand_over()
        assert new(world) == [b"a5", b"a6", b"a7", b"a8", b"a9"]


def test_what_waits_for_partitions_that_stand_holds_up_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much that is, and also what waits for the first answers of keys there."""
    with calm() as world:
        monkeypatch.setattr(sender, "SLICE", 2)
        monkeypatch.setattr(sender, "LINES_MAX", 2)
        settle(world, b"a0", b"b0")
        world.broker.stands = {("t", b"a"[0] % PARTITIONS)}
        put(world, *[b"a%d" % number for number in range(1, 10)])
        put(world, *[b"d%d" % number for number in range(1, 5)])
        world.sender._hand_over()
        world.clock.now_s += TURN_S
        put(world, b"b1")
        turn(world, 100)
        assert b"b1" not in world.stands_now()
        assert new(world) == []


def test_a_partition_that_stands_may_take_all_the_room_and_then_nothing_is_received(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits for it is in memory, and no record can be taken back: before that the others go on."""
    with calm() as world:
        monkeypatch.setattr(world.outputs, "_outputs_max", 6)
        settle(world, b"a0", b"b0")
        world.broker.stands = {("t", b"a"[0] % PARTITIONS)}
        put(world, *[b"a%d" % number for number in range(1, 6)])
        world.sender._hand_over()
        world.clock.now_s += TURN_S
        assert not world.outputs.is_behind()
        put(world, b"b1")
        assert world.outputs.is_behind()
        turn(world, 100)
        assert b"b1" not in world.stands_now()
        assert not world.outputs.is_behind()
        put(world, b"a6")
        turn(world, 100)
        assert world.outputs.is_behind()
        world.broker.stands.clear()
        turn(world, 300)
        assert not world.outputs.is_behind()


def test_where_partitions_take_no_turns_small_batches_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them: with one for each look at the client, small batches were 500 a second at most."""
    with calm() as world:
        monkeypatch.setattr(sender, "SLICE", 3)
        world.sender._round_robin._are_taken = False
        world.sender._batch_outputs = 1
        settle(world, b"a0")
        world.broker.stands = set(ALL)
        put(world, *[b"a%d" % number for number in range(1, 8)])
        world.sender._hand_over()
        assert sizes(world) == [1] * 7
