"""Handlers that wait a little, on many workers: order, failures, a slow record, a stop."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

import pytest

import ehkafka

RECORDS = 8_000
WORKERS = 50
WORK_S = 0.0005
RETRY = ehkafka.Retry(attempts=2, first_s=0.02)


def _produce(lab: Any, keys: int) -> None:
    records = [(b"k%d" % (n * 7919 % keys), b"%d" % n) for n in range(RECORDS)]
    lab.broker.produce("t4", records)


class Work:
    """Sleeps, keeps each key's values in the order of the calls' ends, raises where it is asked to."""

    def __init__(self, fails: Any = lambda _value: False) -> None:
        self.ended: dict[bytes, list[int]] = defaultdict(list)
        self.calls = 0
        self._fails = fails
        self._lock = threading.Lock()

    def __call__(self, record: Any) -> None:
        """Handle one."""
        value = int(record.value())
        time.sleep(WORK_S)
        with self._lock:
            self.calls += 1
        if self._fails(value):
            raise ValueError(f"no {value}")
        self.ended[record.key()].append(value)


@pytest.mark.parametrize("keys", [4_000, 300, 7])
def test_each_key_is_handled_in_order_however_many_there_are(lab: Any, wait_for: Any, keys: int) -> None:
    """More than workers, and fewer."""
    _produce(lab, keys)
    work = Work()
    app = lab.app()
    app.handler("t4", workers=WORKERS)(work)
    app.start()
    wait_for(lambda: _committed(lab) == RECORDS, timeout_s=60.0)
    app.stop()
    assert sum(map(len, work.ended.values())) == RECORDS
    assert all(values == sorted(values) for values in work.ended.values())


def test_failures_are_retried_skipped_and_pass_nobody(lab: Any, wait_for: Any) -> None:
    """One record in a hundred fails twice and is left out; the others of its key wait for it."""
    _produce(lab, 2_000)
    work = Work(fails=lambda value: value % 100 == 0)
    app = lab.app()
    app.handler("t4", workers=WORKERS, retry=RETRY, on_failure=ehkafka.Skip())(work)
    app.start()
    wait_for(lambda: _committed(lab) == RECORDS, timeout_s=60.0)
    assert app.snapshot().skipped_records == RECORDS // 100
    app.stop()
    assert work.calls == RECORDS + RECORDS // 100
    assert all(values == sorted(values) for values in work.ended.values())


def test_a_slow_record_keeps_nobody_behind_it_waiting(lab: Any, wait_for: Any) -> None:
    """What was to go to the same worker goes on elsewhere; its own key waits."""
    _produce(lab, 4_000)
    gate, blocked = threading.Event(), threading.Event()

    def hold(value: int) -> bool:
        if value == RECORDS // 2:
            blocked.set()
            gate.wait(30.0)
        return False

    work = Work(fails=hold)
    app = lab.app()
    app.handler("t4", workers=WORKERS)(work)
    app.start()
    try:
        assert blocked.wait(30.0)
        # All others but one key's, of which there are two.
        wait_for(lambda: sum(map(len, work.ended.values())) >= RECORDS - RECORDS // 4_000, timeout_s=30.0)
        assert _committed(lab) < RECORDS
    finally:
        gate.set()
    wait_for(lambda: _committed(lab) == RECORDS, timeout_s=30.0)
    app.stop()


def test_a_stop_in_the_middle_repeats_nothing(lab: Any, wait_for: Any) -> None:
    """What runs ends, what waits behind is left to the next run."""
    _produce(lab, 4_000)
    first, second = Work(), Work()
    app = lab.app()
    app.handler("t4", workers=WORKERS)(first)
    app.start()
    wait_for(lambda: first.calls > RECORDS // 4)
    app.stop()
    app = lab.app()
    app.handler("t4", workers=WORKERS)(second)
    app.start()
    wait_for(lambda: _committed(lab) == RECORDS, timeout_s=60.0)
    app.stop()
    assert first.calls + second.calls == RECORDS


def _committed(lab: Any) -> int:
    return sum(lab.committed(partition, topic="t4") or 0 for partition in range(4))
