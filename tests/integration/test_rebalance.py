from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import history_event as events

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.broker


def test_a_revoke_in_good_time_repeats_nothing(stage: Any, eventually: Callable[..., None]) -> None:
    """R1: what a revoke finds started is finished and committed in it; the next owner repeats nothing."""
    load = stage.load()
    load.produce(4000)
    # No commit but the ones of revokes and stops: a revoke that does not commit shows.
    first, second = (
        stage.app(lambda _record: time.sleep(0.005), drain_s=10.0, commit_interval_s=60.0) for _ in range(2)
    )
    first.start()
    eventually(lambda: first.snapshot().finished_records > 200, "the first member works")
    second.start()
    eventually(lambda: second.snapshot().partitions, "the second member has partitions")
    assert first.snapshot().abandoned_records > 0, "the revoke came too late to prove anything"
    stage.wait_until_worked_off(load)
    stage.stop_apps()
    verdict = stage.verdict()
    assert verdict.ok, verdict.report()
    assert verdict.duplicates == 0, verdict.report()
    acknowledged = [e for e in stage.memories[0].events if isinstance(e, events.CommitAcknowledged)]
    revoked = [e for e in stage.memories[0].events if isinstance(e, events.Revoked)]
    assert acknowledged[0].at_ns < revoked[0].at_ns, "the commit belongs into the revoke"
