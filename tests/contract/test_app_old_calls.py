"""A call that outlives its assignment is shown with its key, and a command ends the wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.events import PartitionAssigned, PartitionLost, RecordSkipped
from ehkafka.testing import ApiKey


@pytest.fixture
def old_call(lab: Any, recorder: Any, wait_for: Any, events: Any) -> Any:
    """Run an app whose first call of key `a` hangs while its partition is lost and comes back."""
    # Of key a only the first call: it comes before that of b has returned.
    gate = recorder.block(lambda record: record.offset() == 0 and recorder.offsets().count(0) == 1)
    lab.produce("a a b")
    app = lab.app(recorder, workers=4, stuck_s=2.0)
    app.add_hook(events)
    app.start()
    wait_for(lambda: recorder.count >= 1)
    lab.broker.fail_next(ApiKey.HEARTBEAT, 25)
    wait_for(lambda: events.of(PartitionLost) and len(events.of(PartitionAssigned)) == 2)
    wait_for(lambda: app.keys.blocking() and app.keys.blocking()[0].status == "behind")
    yield app
    gate.set()


def test_it_is_named_with_its_epoch_and_age(old_call: Any, wait_for: Any) -> None:
    """First in a note, and in health once it is stuck."""
    [call] = old_call.snapshot().outliving
    assert (call.partition, call.epoch, call.offset, call.key) == (("t", 0), 1, 0, "a")
    oldest = old_call.snapshot().partitions[0].oldest
    assert oldest.state == "waits for the call of t[0]@0 of epoch 1, which has ended"
    wait_for(lambda: not old_call.health().ok)
    reasons = old_call.health().reasons
    assert len(reasons) == 1
    assert "still runs for epoch 1, which has ended" in reasons[0]
    assert reasons[0].endswith("ehkafka keys skip t/0@0")


def test_a_skip_lets_its_key_continue(old_call: Any, lab: Any, wait_for: Any, events: Any) -> None:
    """The record of that call is skipped, the key's others are handled; health is green though it runs."""
    lab.keys_judged = False  # two calls of one key at a time are what the command permits
    assert old_call.keys.skip("t/0@0").records == 1
    wait_for(lambda: lab.committed() == 3)
    assert [event.offset for event in events.of(RecordSkipped)] == [0]
    assert old_call.snapshot().outliving == ()
    wait_for(lambda: old_call.health().ok)
