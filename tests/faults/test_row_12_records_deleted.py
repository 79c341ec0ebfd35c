"""Row 12: records are deleted under a consumer and while it is away; each lost record is reported."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.events import OffsetGap
from ehkafka.records import TopicPartition
from tests.kit.events import Events
from tests.kit.fault_runs import SCALE, dice_of, judge

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
# Five deletions with each policy, each of one partition; in every third round the app is away.
ROUNDS = 5
RECORDS = 100
AWAY_EVERY = 3
WORK_S = 0.001


class Gaps(Events):
    """A hook that keeps the gaps that were reported."""

    def lost(self, partition: int) -> list[int]:
        """Return the offsets of a partition that were reported as lost, in the order of the reports."""
        return [
            offset
            for gap in self.of(OffsetGap)
            if gap.partition.partition == partition
            for offset in range(gap.wanted_offset, gap.resumed_at or 0)
        ]


@pytest.mark.parametrize("action", ["earliest", "latest"])
def test_row_12_what_deletions_cost_is_reported_to_the_record(
    embedded_stage: Callable[..., Any], action: str
) -> None:
    """What was handled and what was reported make up what was produced, none of it twice."""
    stage = embedded_stage(PARTITIONS)
    gaps, dice = Gaps(), dice_of(12)
    handled: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}

    def handle(record: Any) -> None:
        time.sleep(WORK_S)
        handled[record.partition()].append(record.offset())

    def start() -> Any:
        app = stage.app(
            handle,
            workers=2,
            backlog_records_max=40,
            consume_records_max=10,
            # A number: records that go before `earliest` is looked up are not reported.
            start=0,
            on_out_of_range=action,
        )
        app.add_hook(gaps)
        app.start()
        return app

    app, end = start(), 0
    for number in range(ROUNDS * SCALE):
        is_away = number % AWAY_EVERY == AWAY_EVERY - 1
        if is_away:
            app.stop()
        for partition in range(PARTITIONS):
            keys = ((b"k%d" % dice.randrange(7), b"x") for _ in range(RECORDS))
            stage.broker.produce(stage.topic, keys, partition=partition)
        end += RECORDS
        stage.broker.delete_records(stage.topic, dice.randrange(PARTITIONS), end - dice.randrange(RECORDS))
        if is_away:
            app = start()
        stage.wait_until_committed(dict.fromkeys(range(PARTITIONS), end))
    app.stop()
    lost = {partition: gaps.lost(partition) for partition in handled}
    assert sum(map(len, lost.values())) == sum(gap.lost_records for gap in gaps.of(OffsetGap)) > 0
    assert {gap.action for gap in gaps.of(OffsetGap)} == {action}
    for partition, offsets in handled.items():
        assert sorted(offsets + lost[partition]) == list(range(end)), partition
        # Deleted records are not owed: the judge gets the rest.
        owed = sorted(set(range(end)) - set(lost[partition]))
        stage.witness.produced(TopicPartition(stage.topic, partition), owed)
    judge(stage)
