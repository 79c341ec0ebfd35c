"""Row 29: half of the records is held at random, the process is killed, a commit has 1024 bytes to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import read_checkpoint
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.embedded.topics import commits
from ehkafka.progress.metadata import CommitMetadata, decode
from ehkafka.progress.saving import EVENT_HUBS_METADATA_BYTES_MAX
from ehkafka.records import TopicPartition
from tests.faults.half_held_handlers import is_held
from tests.kit.checker.history_event import CommitFailed, Finished, Started
from tests.kit.checker.history_file import read_history
from tests.kit.fault_runs import SCALE, judge
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.processes import MemberProcess

pytestmark = pytest.mark.broker

# More than fits: a random half needs a bit for each offset, and 800 bytes are left for them.
RECORDS = 8_000
RECORDS_IN_A_LONG_RUN = 20_000
KILLS = 2
KILLS_IN_A_LONG_RUN = 20
LIMIT = ("--metadata-bytes", str(EVENT_HUBS_METADATA_BYTES_MAX))
# What fits at least: half of the 6 400 offsets that have a bit.
KEPT_MIN = 3_000


class Commit:
    """What the group has stored for partition 0: the offset, its metadata, and what that says."""

    def __init__(self, stage: Any) -> None:
        (found,) = commits(stage.broker.bootstrap, stage.group, stage.topic) or [None]
        self.next_offset = found.offset if found is not None else -1
        self.text = (found.metadata if found is not None else None) or ""
        decoded = decode(self.text, self.next_offset)
        self.finished = decoded.ranges.finished if isinstance(decoded, CommitMetadata) else ()
        self.kept = {offset for start, end in self.finished for offset in range(start, end)}


def mirrored(folder: Path, stage: Any) -> set[int]:
    """Return what the mirror of partition 0 says is finished above the commit."""
    blob = FileStore(folder).read(Layout("ns", stage.group).name(stage.topic, 0))
    checkpoint = None if blob is None else read_checkpoint(blob.body)
    finished = checkpoint.finished if checkpoint is not None else ()
    return {offset for start, end in finished for offset in range(start, end)}


def fill(stage: Any, records: int) -> None:
    """Produce records without a key: each has a lane of its own."""
    producer = Producer({"bootstrap.servers": stage.broker.bootstrap, "log_level": 0})
    for _ in range(records):
        producer.produce(stage.topic, b"x", partition=0)
        producer.poll(0)
    assert producer.flush(30.0) == 0
    stage.witness.produced(TopicPartition(stage.topic, 0), range(records))


def held_member(stage: Any, directory: Path, *more: str) -> MemberProcess:
    """Return the member, not started; it lets all pass once there is a file `fixed`."""
    handlers = ["--handlers", "tests.faults.half_held_handlers", "--own", f"fixed={directory / 'fixed'}"]
    pace = ["--setting", "commit_interval_s=0.2", *more]
    found: MemberProcess = stage.member("held", *handlers, *pace, consumer={"session.timeout.ms": 1_000})
    return found


def starts(member: MemberProcess) -> int:
    """Return how many records the last start of the member has begun."""
    return member.histories[-1].read_bytes().count(b'"Started"')


def seen(member: MemberProcess, kind: type) -> set[int]:
    """Return the offsets of one kind of event in the history of the last start."""
    return {event.offset for event in read_history([member.histories[-1]]) if isinstance(event, kind)}


def test_row_29_kills_skip_nothing_and_repeat_only_what_does_not_fit(
    kafka: Any, stage_on: Callable[..., Any], tmp_path: Path
) -> None:
    """No commit error, 0 skipped; after each kill exactly what the commit does not say runs again."""
    is_long = SCALE > 1
    records = RECORDS_IN_A_LONG_RUN if is_long else RECORDS
    stage = stage_on(kafka, 1)
    fill(stage, records)
    member = held_member(stage, tmp_path, *LIMIT)
    before: set[int] = set()
    for _ in range(KILLS_IN_A_LONG_RUN if is_long else KILLS):
        member.start()
        expected = set(range(records)) - before
        wait_until(lambda expected=expected: starts(member) >= len(expected), stage.logs, 60.0)
        wait_until(lambda: len(Commit(stage).kept) >= KEPT_MIN, lambda: Commit(stage).text)
        member.kill()
        assert seen(member, Started) == expected
        commit = Commit(stage)
        assert commit.next_offset == 0
        assert len(commit.text) <= EVENT_HUBS_METADATA_BYTES_MAX
        before = commit.kept
        finished = {e.offset for e in read_history(member.histories) if isinstance(e, Finished)}
        assert before <= finished
    (tmp_path / "fixed").touch()
    member.start()
    stage.wait_until_committed({0: records}, 60.0)
    stage.stop_members()
    assert seen(member, Started) == set(range(records)) - before
    assert not [e for e in read_history(member.histories) if isinstance(e, CommitFailed)]
    judge(stage)


@pytest.mark.parametrize("limit", [LIMIT, ("--metadata-bytes", "0")], ids=["1024 bytes", "no metadata"])
def test_row_29_with_a_mirror_a_kill_repeats_nothing_that_is_finished(
    kafka: Any, stage_on: Callable[..., Any], tmp_path: Path, limit: tuple[str, ...]
) -> None:
    """The mirror saves what the commit has no room for: after each kill the held half alone runs again."""
    is_long = SCALE > 1
    records = RECORDS_IN_A_LONG_RUN if is_long else RECORDS
    stage = stage_on(kafka, 1)
    fill(stage, records)
    folder = tmp_path / "mirror"
    folder.mkdir()
    member = held_member(stage, tmp_path, *limit, "--mirror", str(folder))
    free = {offset for offset in range(records) if not is_held(offset)}
    expected = set(range(records))
    for _ in range(KILLS_IN_A_LONG_RUN if is_long else 1):
        member.start()
        wait_until(lambda expected=expected: starts(member) >= len(expected), stage.logs, 60.0)
        wait_until(lambda: mirrored(folder, stage) == free, lambda: len(mirrored(folder, stage)))
        member.kill()
        assert seen(member, Started) == expected
        expected = set(range(records)) - free
    (tmp_path / "fixed").touch()
    member.start()
    stage.wait_until_committed({0: records}, 60.0)
    stage.stop_members()
    assert seen(member, Started) == expected
    judge(stage)


def test_row_29_a_limit_that_was_not_reported_costs_one_refused_request(
    kafka: Any, stage_on: Callable[..., Any], tmp_path: Path
) -> None:
    """The broker takes 1024 bytes, the client assumes 4096: refused once, then it keeps within 1024."""
    stage = stage_on(kafka, 1)
    fill(stage, RECORDS)
    member = held_member(stage, tmp_path)
    member.start()
    wait_until(lambda: starts(member) == RECORDS, stage.logs)
    wait_until(lambda: len(Commit(stage).kept) >= KEPT_MIN, lambda: Commit(stage).text)
    member.kill()
    refused = [e for e in read_history(member.histories) if isinstance(e, CommitFailed)]
    assert len(refused) == 1
    assert len(Commit(stage).text) <= EVENT_HUBS_METADATA_BYTES_MAX
