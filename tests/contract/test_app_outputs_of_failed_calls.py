"""Nothing of a call that fails, or that skips its record, is ever sent: whatever runs it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.events import HandlerFailed
from tests.contract.output_handlers import fails_unless_good

FAILS = {"retry": ehkafka.Retry(attempts=2, first_s=0.01), "on_failure": ehkafka.DeadLetter("dead")}


async def fails_in_task(record: Any) -> None:
    """Handle a record in a task."""
    fails_unless_good(record)


def skips(record: Any) -> str:
    """Send twice, and skip unless the key is `good`."""
    record.send("1")
    if record.key() != b"good":
        record.send("2")
        raise ehkafka.SkipRecord("not wanted")
    return "0"


def deferring(record: Any) -> str:
    """Leave it to a thread, which sends and then fails it."""
    token = record.defer()

    def end() -> None:
        record.send("1")
        if record.key() == b"good":
            token.finish()
        else:
            token.fail(ValueError("no luck"))

    threading.Thread(target=end).start()
    return "0"


def batch(batch: Any) -> None:
    """Handle a batch of one."""
    for record in batch:
        fails_unless_good(record)


def results(batch: Any) -> None:
    """Tell of a batch's records."""
    for record in batch:
        record.send("1")
        record.send("2")
        if record.key() == b"bad":
            batch.fail(record, ValueError("no luck"))
        elif record.key() == b"unwanted":
            batch.skip(record, "not wanted")


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "thread": (fails_unless_good, {}),
    "thread, before_next": (fails_unless_good, {"acknowledged": "before_next"}),
    "thread, skip": (skips, {}),
    "task": (fails_in_task, {}),
    "deferring": (deferring, {}),
    "batch": (batch, {"batch_records_max": 1}),
    "batch, results": (results, {"batch_records_max": 20, "wait_s_max": 0.1}),
    "process": (fails_unless_good, {"workers": ehkafka.Processes(1)}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_that_fails_sends_nothing(
    lab: Any, events: Any, wait_for: Any, read_topic: Any, kind: str
) -> None:
    """Not of any attempt, nor in the end; its record's letter says nothing of outputs."""
    lab.broker.create_topic("out", 1)
    lab.broker.create_topic("dead", 1)
    keys = ["bad", "good", "unwanted", "bad", "good"]
    lab.produce(" ".join(keys))
    handler, options = KINDS[kind]
    app = lab.app(None)
    app.add_hook(events)
    register = app.batch_handler if "batch" in kind else app.handler
    register("t", to="out", **FAILS, **options)(handler)
    app.start()
    wait_for(lambda: lab.committed() == len(keys))
    app.stop()
    assert [message.key() for message in read_topic("out", 4)] == [b"good"] * 4
    if kind != "thread, skip":
        assert {failed.attempt for failed in events.of(HandlerFailed)} <= {1, 2}
        (letter, *_) = read_topic("dead", 2)
        names = {name for name, _ in letter.headers()}
        assert "ehkafka-attempts" in names
        assert not {"ehkafka-outputs-sent", "ehkafka-outputs-acknowledged"} & names
