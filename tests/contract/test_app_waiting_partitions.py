"""While the mirror does not answer, the partitions that need it wait; nothing else does, and nothing ends."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.stores.store import StoreForbiddenError
from ehkafka.errors import EndpointError
from ehkafka.events import MirrorUsed, PartitionAssigned, PartitionsWaiting
from ehkafka.positions.finder import PositionFinder
from ehkafka.progress.metadata import LogFacts
from tests.contract.conftest import FAST_GROUP, ends_with
from tests.contract.mirrored import Mirrored, timestamp_ms
from tests.kit.waiting import must_stay, wait_until

# The client tells of its group by its statistics, else every 5 s.
KNOWS_ITS_GROUP = FAST_GROUP | {"statistics.interval.ms": 100}
ASSIGNORS = pytest.mark.parametrize("assignor", ["default", "cooperative-sticky"])


@pytest.fixture(autouse=True)
def outage(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the store be down, and apps ask it often."""
    monkeypatch.setattr("ehkafka.intake.waiting.AGAIN_S_MAX", 1.0)
    mirrored.store.down = True


@ASSIGNORS
def test_a_start_during_an_outage_waits_and_skips_nothing(
    mirrored: Mirrored, recorder: Any, assignor: Any
) -> None:
    """To begin at `latest` because the store is away would skip what was never handled."""
    mirrored.lab.produce("a b c")
    app = mirrored.start(recorder, start="latest", assignor=assignor, consumer=KNOWS_ITS_GROUP)
    wait_until(lambda: mirrored.events.of(PartitionsWaiting))
    assert "t[0] waits to be read: the partition has no committed offset" in app.health().reasons[0]
    assert "memory: it is down" in app.health().reasons[0]
    [shown] = app.snapshot().partitions
    assert (shown.partition, shown.lag_records, shown.paused) == (("t", 0), None, True)
    assert app.snapshot().lag_records is None
    must_stay(lambda: recorder.count == 0 and mirrored.lab.committed() is None, for_s=0.6)
    assert app.current_run.not_ready() == ()  # a roll-out goes on: a restart would help nothing
    assert not app.snapshot().is_standby
    mirrored.put(
        Checkpoint(next_offset=1, facts=LogFacts(witness=(0, timestamp_ms(mirrored.lab, 0))), owner="host-7")
    )
    mirrored.store.down = False
    wait_until(lambda: mirrored.lab.committed() == 3)
    assert app.health().ok, app.health().reasons
    assert app.snapshot().counters.get("records_unassigned", 0) == 0
    app.stop()
    assert recorder.offsets() == [1, 2]
    assert len(mirrored.events.of(MirrorUsed)) == 1


def test_what_comes_while_a_partition_waits_is_not_skipped(mirrored: Mirrored, recorder: Any) -> None:
    """It begins at what was `latest` when it began to wait, where the mirror turns out to know nothing."""
    mirrored.lab.produce("a b c")
    app = mirrored.start(recorder, start="latest")
    wait_until(lambda: mirrored.events.of(PartitionsWaiting))
    mirrored.lab.produce("d")
    mirrored.store.down = False
    wait_until(lambda: mirrored.lab.committed() == 4)
    app.stop()
    assert recorder.offsets() == [3]


def test_a_store_that_refuses_the_first_question_is_a_wrong_setting(
    mirrored: Mirrored, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is refused in one sentence: to wait would help as little as a restart."""

    def refuse(_name: str) -> None:
        raise StoreForbiddenError("memory: 403. Give the identity the role.")

    monkeypatch.setattr(mirrored.store, "read", refuse)
    app = mirrored.start(recorder)
    ends_with(app, EndpointError, "the mirror could not be read: memory: 403. Give the identity the role.")
    assert mirrored.events.of(PartitionAssigned) == []


@pytest.mark.parametrize("is_asked_at_first", [True, False])
def test_a_partition_without_records_is_committed_and_mirrored(
    mirrored: Mirrored, recorder: Any, monkeypatch: pytest.MonkeyPatch, is_asked_at_first: bool
) -> None:
    """Never written, or expired: a scaler that reads commits or blobs sees that nothing waits there.

    Also where a leader did not answer at the assignment.
    """
    if not is_asked_at_first:
        monkeypatch.setattr(PositionFinder, "_in_empty_logs", lambda *_arguments: {})
    mirrored.store.down = False
    mirrored.lab.produce("a b c", topic="t4", partition=1)
    mirrored.lab.broker.delete_records("t4", 1, 3)
    app = mirrored.start(recorder, "t4", start="earliest")
    wait_until(lambda: [mirrored.lab.committed(n, topic="t4") for n in range(4)] == [0, 3, 0, 0])
    wait_until(lambda: [mirrored.next_offset(n, "t4") for n in range(4)] == [0, 3, 0, 0])
    wait_until(lambda: app.snapshot().lag_records == 0)
