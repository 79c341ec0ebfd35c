"""A topic grows while an app runs: records written to a new partition before the app sees it are handled."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.topics import produce
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    import ehkafka

pytestmark = pytest.mark.broker

RECORDS = 60
# How often the client looks for new partitions.
CHECK_MS = 2_000


class Handled:
    """A handler that keeps the partition and offset of each record."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.records: list[tuple[int, int]] = []

    def __call__(self, record: ehkafka.Record) -> None:
        """Handle a record."""
        with self._lock:
            self.records.append((record.partition(), record.offset()))

    def offsets(self, partition: int) -> list[int]:
        """Return a partition's offsets, in order."""
        return sorted(offset for number, offset in self.records if number == partition)


def write(stage: Any, *partitions: int) -> None:
    """Write records to these partitions."""
    for partition in partitions:
        records = [(b"k%d" % number, b"x") for number in range(RECORDS)]
        produce(stage.broker.bootstrap, stage.topic, records, partition=partition)


@pytest.mark.parametrize("bytes_max", [None, 0])
def test_what_was_written_to_a_new_partition_before_it_is_seen_is_handled(
    kafka: Any, stage_on: Callable[..., Any], metadata_room: Callable[[int], None], bytes_max: int | None
) -> None:
    """With start=latest; commits that carry no metadata leave it to the client's next look at the topic."""
    stage, handled = stage_on(kafka, 2), Handled()
    if bytes_max is not None:
        metadata_room(bytes_max)
    app = stage.app(handled, start="latest", consumer={"topic.metadata.refresh.interval.ms": CHECK_MS})
    app.start()
    wait_until(lambda: stage.committed() == {0: 0, 1: 0}, stage.committed)
    kafka.create_partitions(stage.topic, 3)
    write(stage, 2)
    wait_until(lambda: stage.committed().get(2) == RECORDS, lambda: handled.records)
    app.stop()
    lost = set(range(RECORDS)) - set(handled.offsets(2))
    assert not lost, f"FACT: {len(lost)} records of the new partition were never handled"


def test_records_from_before_two_members_began_with_latest_are_not_handled(
    kafka: Any, stage_on: Callable[..., Any]
) -> None:
    """The second one joins a second after the first: its partitions have no commit yet, and are not new."""
    stage = stage_on(kafka, 8)
    write(stage, *range(8))
    handlers = [Handled(), Handled()]
    for handler in handlers:
        stage.app(handler, start="latest").start()
        time.sleep(1.0)
    wait_until(lambda: stage.committed() == dict.fromkeys(range(8), RECORDS), stage.committed)
    old = [record for handler in handlers for record in handler.records]
    assert not old, f"FACT: {len(old)} records from before the start were handled"
