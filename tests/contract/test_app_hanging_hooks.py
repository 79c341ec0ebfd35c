"""A hook that does not return: other partitions, deadlines and rebalances go on, and health names it."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from ehkafka.events import PartitionAssigned, UserCodeHangs
from ehkafka.intake import hook_threads
from tests.kit.waiting import wait_until


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what hangs be noticed soon."""
    monkeypatch.setattr(hook_threads, "PATIENCE_S", 0.1)
    monkeypatch.setattr(hook_threads, "HANGS_S", 0.3)


class Hangs:
    """A hook that waits at one partition."""

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition
        self.gate = threading.Event()
        self.seen: list[int] = []

    def __call__(self, partition: Any, *_reason: str) -> None:
        """Be called."""
        self.seen.append(partition.partition)
        if partition.partition == self.partition:
            self.gate.wait(30.0)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", ["on_assigned", "open"])
def test_another_partitions_records_are_handled_while_a_hook_hangs(lab: Any, events: Any, kind: str) -> None:
    """Its own wait, health names it and where; with its return all is well."""
    hook = Hangs()
    done: list[int] = []

    class Mine:
        def open(self, partition: Any) -> None:
            if kind == "open":
                hook(partition)

        def process(self, record: Any) -> None:
            done.append(record.partition())

    app = lab.app(Mine, "t4")
    if kind == "on_assigned":
        app.on_assigned(hook)
    for partition in range(4):
        lab.produce("a", topic="t4", partition=partition)
    app.start()
    wait_until(lambda: sorted(done) == [1, 2, 3])
    wait_until(lambda: not app.health().ok and events.of(UserCodeHangs))
    (reason,) = app.health().reasons
    assert reason.startswith(f"{kind} (opening t4[0]) has not returned for")
    assert [event.where for event in events.of(UserCodeHangs)] == [f"{kind} (opening t4[0])"]
    hook.gate.set()
    wait_until(lambda: sorted(done) == [0, 1, 2, 3] and app.health().ok)


@pytest.mark.usefixtures("quick")
def test_no_later_rebalance_waits_for_a_hook_that_hangs(
    lab: Any, events: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revoke waits for hooks that can return: each one would else hold up polling for the whole drain."""
    monkeypatch.setattr("ehkafka.intake.membership.HOOKS_S", 20.0)
    hook = Hangs()
    app = lab.app(lambda _record: None, "t4", drain_s=20.0)
    app.on_assigned(hook)
    revoked: list[int] = []
    app.on_revoked(lambda partition, _reason: revoked.append(partition.partition))
    app.start()
    wait_until(lambda: not app.health().ok)
    began_s = time.monotonic()
    second = lab.start(lambda _record: None, "t4")
    wait_until(lambda: len(events.of(PartitionAssigned)) > 4)
    second.stop()
    wait_until(lambda: len(events.of(PartitionAssigned)) >= 10)
    assert time.monotonic() - began_s < 18.0, "FACT: no revoke waited for it"
    assert set(revoked) == {1, 2, 3}
    hook.gate.set()
    wait_until(lambda: 0 in revoked)


@pytest.mark.usefixtures("quick")
def test_a_stop_ends_in_time_while_a_hook_hangs(lab: Any) -> None:
    """What others have finished is committed; the hook is left behind."""
    hook = Hangs()
    app = lab.app(lambda _record: None, "t4")
    app.on_assigned(hook)
    lab.produce("a", topic="t4", partition=2)
    app.start()
    wait_until(lambda: lab.committed(2, topic="t4") == 1)
    began_s = time.monotonic()
    app.stop(timeout_s=1.0)
    assert time.monotonic() - began_s < 10.0
    hook.gate.set()
