"""Outputs of real children: what is put, of which record, in which order, and when."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.outputs.outlet import Outlet
from ehkafka.outputs.unacknowledged import Unacknowledged
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def senders(crew: Callable[..., Any], handlers: Any) -> Callable[..., Any]:
    """Start pools whose handler sends the offset, or what the record's value says."""

    def make(count: int = 1, **options: Any) -> Any:
        return crew(count, function=handlers.send, sends=True, **options)

    return make


def in_order(one: Any, keys: str, first: int) -> bool:
    """Whether the outputs of each key rise, from a record on."""
    offsets = [offset for offset, _ in one.sent() if offset >= first]
    by_key = [[offset for offset in offsets if keys[offset - first] == key] for key in set(keys)]
    return by_key == [sorted(of_key) for of_key in by_key]


def test_a_child_that_is_killed_in_mid_call_has_sent_nothing(senders: Any) -> None:
    """What the call had given to `record.send` died with it; the next attempt sends it."""
    one = senders()
    one.warm_up()
    first = one.next_offset
    one.receive("x", "before kill 1", "x", "x", keys="aaab")
    one.finish_all()
    assert [offset for offset, _ in one.failures] == [first + 1]
    found = sorted(pair for pair in one.sent() if pair[0] >= first)
    assert found == [
        (first, str(first)),
        (first + 1, str(first + 1)),
        (first + 1, f"{first + 1} before 2"),
        (first + 2, str(first + 2)),
        (first + 3, str(first + 3)),
    ]
    assert in_order(one, "aaab", first)


def test_kills_at_random_lose_and_double_no_output(senders: Any) -> None:
    """Whenever a child dies: each record's outputs are put once, or its call is repeated."""
    one = senders(2)
    one.warm_up()
    first = one.next_offset
    keys = "abcdefgh" * 100
    one.receive(*["sleep 0.001"] * 800, keys=keys)
    for kill in range(3):
        one.wait(lambda least=first + 100 * kill: one.finished() > least)
        for pid in one.workers.pids[:1]:
            os.kill(pid, signal.SIGKILL)
    one.finish_all()
    assert sorted(offset for offset, _ in one.sent()) == list(range(one.next_offset))
    assert in_order(one, keys, first)


ODD = {
    "value": "TypeError: a Opaque cannot be sent",
    "payload": "TypeError: a Reading cannot be sent as JSON",
    "topic": "ValueError: handler 'crew' sends to 'elsewhere', which is not among its topics out, more",
    "key": "TypeError: the key of an output is of type int",
    "header": "TypeError: header 'a' of an output is of type int",
    "header's name": "TypeError: the name of an output's header is of type bytes",
    "partition": "ValueError: an output's partition is '1'",
    "true": "ValueError: an output's partition is True",
    "no partition": "ValueError: an output's partition is -2",
    "no such number": "ValueError: an output's partition is 1099511627776",
    "large": "ValueError: an output to 'out' has 2000001 bytes",
    "coroutine": "TypeError: the handler returned a coroutine",
}


def test_what_cannot_be_sent_fails_its_record_in_the_child(senders: Any) -> None:
    """With the reason, before the next record of the key starts; what it had sent before is not sent."""
    one = senders()
    for number, (what, words) in enumerate(ODD.items()):
        first = one.next_offset
        one.receive(f"before odd {what}", "x", keys=chr(ord("a") + number) * 2)
        one.wait(lambda first=first: first in dict(one.failures))
        error = dict(one.failures)[first]
        assert f"{type(error).__name__}: {error}".startswith(words)
        assert "In worker process" in str(error.__cause__)
        assert str(first + 1) not in {line[0] for line in one.lines("start")}
        assert first not in [offset for offset, _ in one.sent()]


def test_values_of_a_users_own_types_arrive_as_plain_ones(senders: Any) -> None:
    """Enums and dataclasses are the child's; only text, bytes and numbers come back."""
    one = senders()
    one.receive("odd own types")
    one.finish_all()
    assert one.failures == []
    (output,) = one.outputs()
    assert (output.topic, output.key, output.partition) == ("more", b"more", -1)
    assert type(output.topic) is str
    assert output.value == b'{"celsius":2.5,"spoiled":null}'
    assert output.headers == [("more", b"more"), ("content-type", b"application/json")]


def test_nothing_can_be_sent_once_the_call_has_ended(senders: Any) -> None:
    """A thread that outlives its call hears so; nothing is dropped silently."""
    one = senders()
    one.receive("late")
    one.finish_all()
    one.wait(lambda: one.lines("late"))
    assert "t[0]@0 is finished" in " ".join(one.lines("late")[0])
    assert one.sent() == []


def test_no_room_holds_the_child_up_and_charges_no_record(senders: Any) -> None:
    """The thread that owns the child waits, for longer than the deadline; then all goes on in order."""
    one = senders(outputs=Unacknowledged(bytes_max=300_000), deadline_s=0.3)
    keys = "abcdefghij" * 5
    one.receive(*["bytes 100000"] * 50, keys=keys)
    one.wait(lambda: len(one.outputs()) >= 3)
    stands_s = time.monotonic() + 1.0
    one.wait(lambda: time.monotonic() > stands_s)
    assert len(one.outputs()) < 10
    assert one.finished() < 10
    sent = []

    def acknowledge() -> bool:
        sent.extend(one.acknowledge())
        return len(sent) == 50

    one.wait(acknowledge)
    one.finish_all()
    assert one.failures == []
    for key in "abcdefghij":
        of_key = [offset for offset in sent if keys[offset] == key]
        assert of_key == sorted(of_key)


def test_an_epoch_that_ends_lets_go_who_waits_for_room(senders: Any) -> None:
    """What was not put fails there, is stale, and nothing of it is sent."""
    one = senders(outputs=Unacknowledged(bytes_max=100_000))
    one.receive("bytes 100000", "bytes 100000", keys="ab")
    one.wait(lambda: len(one.outputs()) == 1 and len(one.lines("end")) == 2)
    with one.hub.locked() as inboxes:
        inboxes.ending.end([one.epoch])
    one.outlet.outputs.end()
    one.wait(lambda: one.failures)
    assert "NotSentError" in type(one.failures[0][1]).__name__
    assert one.outputs() == []


def started_of_one_key(one: Any) -> int:
    """Give a key eight records when batches are large; return how many have started before any is safe."""
    for worker in one.workers._workers:
        worker.batch_records = 64
    one.receive(*["x"] * 8, keys="a" * 8)
    one.wait(one.outputs)
    stands_s = time.monotonic() + 0.3
    one.wait(lambda: time.monotonic() > stands_s)
    return len(one.lines("start"))


def test_before_next_a_batch_has_one_record_of_a_key(senders: Any) -> None:
    """A child knows no acknowledgement."""
    assert started_of_one_key(senders(before_next=True)) == 1


def test_mutant_before_next_a_batch_has_several_of_a_key(
    senders: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs them all where its parent, which would take them back, is slow."""
    one = senders(before_next=True)
    one.workers.one_of_a_key = False
    returned = Outlet.returned

    def return_late(*arguments: Any) -> None:
        wait_until(lambda: len(one.lines("start")) == 8)
        returned(*arguments)

    monkeypatch.setattr(Outlet, "returned", return_late)
    assert started_of_one_key(one) == 8
