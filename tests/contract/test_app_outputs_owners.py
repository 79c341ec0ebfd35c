"""Outputs while partitions change hands and processes are killed: none is lost, and none passes another."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import Any

import pytest

import ehkafka
from ehkafka.events import WorkerProcessDied
from ehkafka.testing import ApiKey
from tests.contract.output_handlers import copies
from tests.contract.outputs_order import problems
from tests.kit.inside import inside
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

KEYS = 12
# More by hand: each costs an interpreter's start.
CHILD_KILLS = int(os.environ.get("EHKAFKA_PROCESS_KILLS", "6"))
UNHURRIED = {"session.timeout.ms": 3_000}


def load(
    lab: Any, records: int, topic: str = "t4", partitions: int = 4, *, first: int = 0
) -> dict[bytes, list[bytes]]:
    """Produce numbered records, each key in one partition; return the values of each key in order.

    `first`: so many were produced before.
    """
    inputs: dict[bytes, list[bytes]] = {}
    for partition in range(partitions):
        pairs = []
        for number in range(first // partitions, (first + records) // partitions):
            key, value = f"{partition}-{number % KEYS}".encode(), f"{partition}:{number}".encode()
            inputs.setdefault(key, []).append(value)
            pairs.append((key, value))
        lab.broker.produce(topic, pairs, partition=partition)
    return inputs


WORKERS = {"threads": 8, "processes": ehkafka.Processes(2)}


@pytest.fixture
def out(lab: Any) -> Any:
    """Return the lab with a topic for outputs, of three partitions."""
    lab.broker.create_topic("out", 3)
    return lab


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
def test_outputs_keep_their_order_while_members_come_and_go(out: Any, workers: str) -> None:
    """Two members share the load for a while: each key's outputs are in order over both."""
    inputs = load(out, 2000)

    def member() -> Any:
        app = out.app(None, consumer=UNHURRIED)
        app.handler("t4", to="out", workers=WORKERS[workers])(copies)
        return app

    one, two = member(), member()
    one.start()
    wait_until(lambda: one.snapshot().finished_records > 200)
    two.start()
    # The first member may have handled all by the time that the group has let the second one in.
    wait_until(lambda: two.snapshot().partitions, timeout_s=30.0)
    for key, values in load(out, 2000, first=2000).items():
        inputs[key] += values
    wait_until(lambda: two.snapshot().finished_records > 200, timeout_s=30.0)
    two.stop()
    wait_until(lambda: sum(out.committed(n, topic="t4") or 0 for n in range(4)) == 4000, timeout_s=40.0)
    one.stop()
    assert problems(inputs, read_all(out.broker.bootstrap, "out")) == []


@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("lost", [False, True])
def test_what_an_old_owner_still_holds_is_never_sent(out: Any, lost: bool, workers: str) -> None:
    """Its outputs do not get through; once another has the partition, nothing comes behind that one's."""
    inputs = {b"a": [b"0", b"1", b"2"]}
    out.broker.produce("t", [(b"a", value) for value in inputs[b"a"]])
    one = out.app(None, drain_s=0.3, consumer=UNHURRIED)
    one.handler("t", to="out", workers=WORKERS[workers])(copies)
    # Not the leader: the client asks again and again.
    out.broker.fail_next(ApiKey.PRODUCE, *[6] * 100_000)
    one.start()
    wait_until(lambda: one.snapshot().finished_records == 3)
    if lost:
        out.broker.fail_next(ApiKey.HEARTBEAT, 25)
        wait_until(lambda: one.snapshot().received_records == 6, timeout_s=20.0)
        out.broker.clear_failures(ApiKey.PRODUCE)
        wait_until(lambda: out.committed() == 3, timeout_s=20.0)
        one.stop()
    else:
        one_left = time.monotonic()
        with pytest.raises(Exception, match="not acknowledged"):
            one.stop(timeout_s=0.5)
        assert time.monotonic() - one_left < 10.0
        assert out.committed() in (0, None)
        out.broker.clear_failures(ApiKey.PRODUCE)
        two = out.app(None, consumer=UNHURRIED)
        two.handler("t", to="out")(copies)
        two.start()
        wait_until(lambda: out.committed() == 3)
        two.stop()
    time.sleep(0.5)
    assert problems(inputs, read_all(out.broker.bootstrap, "out"), repeats=False) == []


KILLED = """
@app.handler("t4", to="out", workers=8)
def copies(record):
    if record.offset() % 50 == 0:
        say("AT", record.offset())
    return record.value()
run()
"""


BEGINS = """
@app.on_start
def begin():
    say("BEGAN")
"""


KILLED_WITH_CHILDREN = """
from tests.contract.output_handlers import copies
app.handler("t4", to="out", workers=ehkafka.Processes(2))(copies)
def tell():
    while True:
        time.sleep(0.2)
        if app.state == "running" and app.snapshot().finished_records:
            say("AT", app.snapshot().finished_records)
if __name__ == "__main__":
    threading.Thread(target=tell, daemon=True).start()
    run()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("source", "records"), [(KILLED, 10_000), (KILLED_WITH_CHILDREN, 2_000)])
def test_kill_9_under_load_loses_no_output_and_keeps_their_order(
    out: Any, program: Any, source: str, records: int
) -> None:
    """Killed again and again: every output at least once, each key's in order but for whole repeats."""
    inputs = load(out, records)
    out.judged = False
    for kill in range(2):
        running = program(source)
        wait_until(lambda running=running, least=3 + kill: len(running.lines) > least, timeout_s=30.0)
        running.signal(signal.SIGKILL)
        running.wait()
    running = program(BEGINS + source)
    # The killed ones may have left nothing to do, and one that is not up yet does not hear the signal.
    wait_until(lambda: running.printed("BEGAN"), timeout_s=30.0)
    wait_until(lambda: sum(out.committed(n, topic="t4") or 0 for n in range(4)) == records, timeout_s=60.0)
    running.signal(signal.SIGTERM)
    assert running.wait() == 0
    assert problems(inputs, read_all(out.broker.bootstrap, "out")) == []


@pytest.mark.slow
def test_kills_of_children_under_load_lose_no_output_and_keep_their_order(out: Any, events: Any) -> None:
    """Each output once, each key's in order: a child that dies takes along what it had not reported."""
    inputs = load(out, 6_000)
    retry = ehkafka.Retry(attempts=50, first_s=0.01, max_s=0.05)
    app = out.app(None)
    app.handler("t4", to="out", workers=ehkafka.Processes(2), retry=retry)(copies)
    app.start()
    (route,) = inside(app).routes
    dice = random.Random(20)
    for kill in range(CHILD_KILLS):
        least = 300 * (kill + 1)
        wait_until(lambda least=least: app.snapshot().finished_records >= least and route.workers.pids)
        time.sleep(dice.uniform(0.0, 0.05))
        with suppress(ProcessLookupError):  # the one before was buried in between
            os.kill(dice.choice(route.workers.pids), signal.SIGKILL)
    wait_until(lambda: sum(out.committed(n, topic="t4") or 0 for n in range(4)) == 6_000, timeout_s=60.0)
    app.stop()
    assert len(events.of(WorkerProcessDied)) >= CHILD_KILLS // 2
    # A call that had not ended has sent nothing, so not even a kill repeats anything.
    assert problems(inputs, read_all(out.broker.bootstrap, "out"), repeats=False) == []
