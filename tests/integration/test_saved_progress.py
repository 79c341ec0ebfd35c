"""What is finished above a commit, on a real broker: kept by it, and dropped where an operator rewinds."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import ehkafka
from ehkafka.embedded.topics import commits, produce
from ehkafka.progress.metadata import CommitMetadata, decode
from tests.integration.logs import put_commit
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.broker


class Blocking:
    """A handler that blocks at some offsets until it is let go; keeps what it started and finished."""

    def __init__(self, *stuck: int) -> None:
        self.started: list[int] = []
        self.finished: list[int] = []
        self.go = threading.Event()
        self._stuck = stuck

    def __call__(self, record: ehkafka.Record) -> None:
        """Handle a record."""
        self.started.append(record.offset())
        if record.offset() in self._stuck:
            assert self.go.wait(60.0)
        self.finished.append(record.offset())


def saved(stage: Any) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return the group's commit of partition 0 and what it says is finished above."""
    for found in commits(stage.broker.bootstrap, stage.group, stage.topic):
        decoded = decode(found.metadata or "", found.offset)
        return found.offset, decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()
    return -1, ()


def leave_stuck(stage: Any) -> Blocking:
    """Run 20 records with 7 and 9 stuck, until the commit says so, and leave without them."""
    produce(stage.broker.bootstrap, stage.topic, [(b"k%d" % n, b"x") for n in range(20)], partition=0)
    handler = Blocking(7, 9)
    app = stage.app(handler, commit_interval_s=0.1)
    app.start()
    wait_until(lambda: saved(stage) == (7, ((8, 9), (10, 20))), lambda: saved(stage))
    with pytest.raises(ehkafka.errors.UnfinishedError):
        app.stop(drain=False, timeout_s=0.3)
    return handler


@pytest.mark.parametrize("keeps_text", [True, False])
def test_a_rewind_drops_what_was_finished_above(narrow: Any, keeps_text: bool) -> None:
    """The operator moves the commit back, with or without the old text: all of it is handled again."""
    first = leave_stuck(narrow)
    (before,) = commits(narrow.broker.bootstrap, narrow.group, narrow.topic)
    put_commit(narrow, 3, before.metadata if keeps_text else "")
    second = Blocking()
    narrow.app(second, commit_interval_s=0.1).start()
    narrow.wait_until_committed({0: 20})
    first.go.set()
    assert sorted(second.started) == list(range(3, 20))
