"""Apps that send exactly once, on a broker: what readers see, for all kinds of workers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka import DeadLetter, Retry
from ehkafka.errors import FencedError, HandlerFailedError
from ehkafka.events import RecordDeadLettered
from tests.integration.sent import TIMEOUT_S, Sent, place_of, plain
from tests.kit.events import Events
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker


async def plain_async(record: Any) -> str:
    """Do it in a task."""
    return place_of(record)


def failing(record: Any) -> None:
    """Send, and fail the first time."""
    record.send(place_of(record) if record.attempt > 1 else "void")
    if record.attempt == 1 and record.offset() % 5 == 0:
        raise ValueError("once more")
    if record.attempt == 1:
        raise ehkafka.RetryLater(0.0)


async def failing_async(record: Any) -> None:
    """Do it in a task."""
    await asyncio.sleep(0)
    failing(record)


def failing_batch(batch: Any) -> None:
    """Give some records back though they have sent."""
    for record in batch:
        is_first = record.attempt == 1 and record.offset() % 7 == 0
        record.send("void" if is_first else place_of(record))
        if is_first:
            batch.fail(record, ValueError("once more"))


KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "threads": (plain, {"workers": 8}),
    "tasks": (plain_async, {"workers": 50}),
    "failing threads": (failing, {"workers": 8, "retry": Retry(attempts=3, first_s=0.01)}),
    "failing tasks": (failing_async, {"workers": 50, "retry": Retry(attempts=3, first_s=0.01)}),
    "processes": (plain, {"workers": ehkafka.Processes(2)}),
    "failing processes": (
        failing,
        {"workers": ehkafka.Processes(2), "retry": Retry(attempts=3, first_s=0.01)},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_output_is_seen_once_and_in_order(sent: Sent, kind: str) -> None:
    """What attempts had sent that failed is never seen."""
    handler, options = KINDS[kind]
    sent.run(sent.app(handler, **options))
    sent.check()


def test_batches_send_by_their_records(sent: Sent) -> None:
    """Those that are given back have sent nothing, nor have the later ones of their keys."""
    retry = Retry(attempts=5, first_s=0.01)
    sent.run(sent.batch_app(failing_batch, retry=retry, batch_records_max=50))
    found = sent.outputs()
    assert "void" not in found
    sent.check()


def test_a_batch_that_sends_and_then_skips_publishes_nothing_of_that(sent: Sent) -> None:
    """Nor what it had sent for a record that it fails; letters and the others' outputs are there once."""
    goes = {0: "good", 3: "skipped", 6: "failed"}

    def skipping(batch: Any) -> None:
        for record in batch:
            place = place_of(record)
            record.send(place if goes.get(record.offset() % 10, "good") == "good" else "void")
        for record in batch:
            way = goes.get(record.offset() % 10)
            if way == "skipped":
                batch.skip(record, "unwanted")
            elif way == "failed":
                batch.fail(record, ValueError("bad"))

    sent.run(sent.batch_app(skipping, batch_records_max=50, on_failure=DeadLetter(sent.dead)))
    void = [place for place in sent.places() if int(place.partition(":")[2]) % 10 in (3, 6)]
    assert "void" not in sent.outputs()
    sent.check(tuple(void))
    assert len(sent.letters()) == sum(place.endswith("6") for place in void)


def test_what_a_batch_returns_as_a_whole_ends_the_app(sent: Sent) -> None:
    """With the way out in its error."""

    def whole(batch: Any) -> Any:
        return ehkafka.Send("all", key=b"k")

    sent.load.produce(5)
    app = sent.batch_app(whole, batch_records_max=5)
    app.start()
    app.wait(TIMEOUT_S)
    with pytest.raises(HandlerFailedError, match=r"call record\.send\(…\) for each record"):
        app.stop()
    assert sent.outputs() == []


def test_a_deferred_record_sends_when_it_is_finished(sent: Sent) -> None:
    """And what one had sent that is failed by its token is not seen."""

    def deferring(record: Any) -> None:
        token = record.defer(deadline_s=30.0)
        if record.attempt == 1 and record.offset() % 3 == 0:
            record.send("void")
            token.fail(ValueError("no"))
        else:
            record.send(place_of(record))
            token.finish()

    sent.run(sent.app(deferring, workers=4, retry=Retry(attempts=3, first_s=0.01)), 100)
    assert "void" not in sent.outputs()
    sent.check()


def test_outputs_above_a_slow_record_are_seen_before_it_ends(sent: Sent) -> None:
    """They are saved in the same transaction, so a restart does not send them again."""
    sent.load.put_all(b"slow")
    (slow,) = sent.load.ends
    sent.load.put_all(*[b"key-%d" % number for number in range(50)])
    waits = True

    def handler(record: Any) -> str:
        while record.key() == b"slow" and waits:
            time.sleep(0.01)
        return place_of(record)

    app = sent.app(handler, workers=8)
    app.start()
    wait_until(lambda: len(sent.outputs()) == 50, timeout_s=TIMEOUT_S)
    assert sent.stage.committed()[slow] == 0
    waits = False
    sent.stage.wait_until_committed(sent.load.ends)
    app.stop()
    sent.check()


def test_dead_letters_are_committed_with_their_records(sent: Sent) -> None:
    """Each is there once, and its record's output is not."""

    def bad(record: Any) -> str:
        record.send("void")
        if record.offset() % 10 == 3:
            raise ValueError("bad")
        raise ehkafka.SkipRecord("unwanted")

    heard = Events()
    app = sent.app(bad, workers=8, on_failure=DeadLetter(sent.dead))
    app.add_hook(heard)
    sent.run(app)
    assert sent.outputs() == []
    wanted = [
        (number, offset)
        for number, end in sent.load.ends.items()
        for offset in range(end)
        if offset % 10 == 3
    ]
    assert sent.letters() == sorted(wanted)
    assert len(heard.of(RecordDeadLettered)) == len(wanted)


def test_what_is_aborted_is_never_seen_and_nothing_is_lost_by_a_stop(sent: Sent) -> None:
    """A stop with records that run leaves their outputs to the next start."""

    def slow(record: Any) -> str:
        time.sleep(0.05)
        return place_of(record)

    sent.load.produce(200)
    for _ in range(4):
        app = sent.app(slow, workers=4)
        app.start()
        time.sleep(1.5)
        app.stop(drain="running")
    app = sent.app(plain, workers=4)
    app.start()
    sent.stage.wait_until_committed(sent.load.ends)
    app.stop()
    sent.check()


def test_ranges_that_do_not_fit_wait_in_memory(sent: Sent, metadata_room: Callable[[int], None]) -> None:
    """Readers see them later, and each once."""

    def handler(record: Any) -> str:
        if record.offset() % 5 == 0:
            time.sleep(0.02)
        return place_of(record)

    metadata_room(70)
    sent.run(sent.app(handler, workers=16), 600)
    sent.check()


def test_a_member_that_leaves_and_comes_back_sends_nothing_twice(sent: Sent) -> None:
    """Two members, one of which comes and goes while records come."""

    def handler(record: Any) -> str:
        time.sleep(0.01 if record.offset() % 5 == 0 else 0.0)
        return place_of(record)

    load = sent.load = sent.stage.load(300.0)
    load.start()
    first = sent.app(handler, workers=8)
    first.start()
    for assignor in ("default", "default"):
        guest = sent.app(handler, workers=8, assignor=assignor)
        guest.start()
        time.sleep(3.0)
        guest.stop()
    load.stop()
    sent.stage.wait_until_committed(load.ends)
    first.stop()
    sent.check()


def test_a_shared_instance_id_ends_the_older_process(sent: Sent) -> None:
    """The newer one has its transactional id, and goes on."""
    sent.load.produce(20)
    older = sent.app(plain, instance_id="one")
    older.start()
    sent.stage.wait_until_committed(sent.load.ends)
    newer = sent.app(plain, instance_id="one")
    newer.start()
    sent.load.produce(20)
    wait_until(lambda: older.state == "stopped", timeout_s=TIMEOUT_S)
    with pytest.raises(FencedError):
        older.stop()
    sent.stage.wait_until_committed(sent.load.ends)
    newer.stop()
    sent.check()
