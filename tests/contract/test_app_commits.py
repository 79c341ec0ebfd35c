"""Commits: never ahead of unfinished work, as few as possible, and what each refusal leads to."""

from __future__ import annotations

from typing import Any

import ehkafka
from ehkafka.events import CommitAcknowledged
from ehkafka.testing import ApiKey
from tests.contract.mirrored import commit
from tests.kit.waiting import must_stay, wait_until

T0 = ehkafka.TopicPartition("t", 0)


def acknowledged(events: Any, partition: ehkafka.TopicPartition = T0) -> list[int]:
    """Return the next_offsets that the broker stored for a partition, in order."""
    return [dict(e.next_offsets)[partition] for e in events.of(CommitAcknowledged) if _has(e, partition)]


def _has(event: Any, partition: ehkafka.TopicPartition) -> bool:
    return partition in dict(event.next_offsets)


def test_a_log_that_begins_at_500_is_committed_from_there(lab: Any, recorder: Any) -> None:
    """Retention took 500 records; a new group from the earliest handles ten and commits 510."""
    lab.produce("a " * 510)
    lab.broker.delete_records("t", 0, 500)
    lab.start(recorder)
    wait_until(lambda: recorder.count == 10)
    wait_until(lambda: lab.committed() == 510)
    assert recorder.offsets() == list(range(500, 510))


def test_nothing_is_sent_while_nothing_changes(lab: Any, recorder: Any) -> None:
    """Ten intervals after the last record, and a stop, without an OffsetCommit request."""
    lab.produce("a b c", topic="t4")
    app = lab.start(recorder, "t4")
    wait_until(lambda: lab.committed(topic="t4") == 3)
    wait_until(lambda: app.snapshot().partitions[0].committed == 3)
    lab.broker.track_requests()
    must_stay(lambda: not lab.broker.requests(ApiKey.OFFSET_COMMIT), for_s=1.0)
    app.stop()
    assert lab.broker.requests(ApiKey.OFFSET_COMMIT) == []


def test_an_unchanged_position_is_sent_again_when_idle_for_too_long(
    lab: Any, recorder: Any, events: Any
) -> None:
    """With commit_idle_s=0.3 the same next_offset goes out again, about that far apart."""
    lab.produce("a b c")
    app = lab.start(recorder, commit_idle_s=0.3)
    wait_until(lambda: lab.committed() == 3)
    lab.broker.track_requests()
    wait_until(lambda: len(lab.broker.requests(ApiKey.OFFSET_COMMIT)) == 3)
    first, second, third = (request.received_at_s for request in lab.broker.requests(ApiKey.OFFSET_COMMIT))
    assert second - first >= 0.28
    assert third - second >= 0.28
    app.stop()
    assert acknowledged(events)[-3:] == [3, 3, 3]


def test_a_named_reset_ignores_the_groups_commit_once(lab: Any) -> None:
    """The start position counts although the group has a commit; the name goes on in the next commits."""
    lab.produce("a b c d")
    # The embedded broker takes no commit from outside of a group that ever had a member.
    commit(lab, 4)
    handled = lab.recorder()
    app = lab.start(handled, start=2, reset="june")
    wait_until(lambda: lab.committed() == 4 and handled.count == 2)
    app.stop()
    assert handled.offsets() == [2, 3]
    again = lab.recorder()
    app = lab.start(again, start=2, reset="june")
    lab.produce("e")
    wait_until(lambda: again.count == 1)
    app.stop()
    assert again.offsets() == [4]
