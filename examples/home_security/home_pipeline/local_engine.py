"""The pipeline without Spark: a batch handler of an `ehkafka.App` counts readings and writes rows.

    python -m home_pipeline.local_engine     # again in another terminal: a second member of the group

Each batch holds whole partitions in order; for each partition it becomes one blob (see `chain`). The offsets
are committed when the blobs are there. Settings come from the environment: HOME_SECURITY_BOOTSTRAP, what
`container` names, and HOME_SECURITY_QUICK=1 for a broker whose rebalances wait for the session time-out.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import AzureError

import ehkafka
from home_pipeline.chain import RETRY_S, Chain
from home_pipeline.container import open_container
from home_pipeline.layout import Row, rows_of
from home_pipeline.readings import TOPIC
from home_pipeline.rules import Windows, counted
from home_pipeline.stage import app_endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from azure.storage.blob import ContainerClient

GROUP = "home-security-minutes"
MAX_WAIT_S = 3.0
"""How long readings wait for company, so that there are not too many blobs: 16 at most in that time."""
MAX_RECORDS = 5_000
_log = logging.getLogger("home-security")


class Minutes:
    """What the handler keeps: the chains of the partitions that this process has now."""

    def __init__(self, container: ContainerClient, endpoint: ehkafka.Endpoint, windows: Windows) -> None:
        self._container = container
        self._endpoint = endpoint
        self._windows = windows
        # An entry is used by one worker at a time (its partition is one lane); the lock is for the dict.
        self._chains: dict[ehkafka.TopicPartition, Chain] = {}
        self._lock = threading.Lock()
        # Written and read on the hook thread alone.
        self._mine: set[ehkafka.TopicPartition] = set()

    def keep(self, batch: ehkafka.Batch) -> None:
        """Write a batch's records, partition by partition; what is written already is passed over."""
        partitions: dict[ehkafka.TopicPartition, list[ehkafka.Record]] = defaultdict(list)
        for record in batch:
            partitions[ehkafka.TopicPartition(record.topic(), record.partition())].append(record)
        try:
            for partition, records in partitions.items():
                self._chain(partition).append(records, self._rows)
        except AzureError as error:
            _log.warning("storage does not take blobs (%s); the batch comes again", type(error).__name__)
            raise ehkafka.RetryLater(after_s=RETRY_S) from None

    def assigned(self, partition: ehkafka.TopicPartition) -> None:
        """Note, and log, that a partition is this member's."""
        self._mine.add(partition)
        self._log_partitions()

    def forget(self, partition: ehkafka.TopicPartition, _reason: str = "lost") -> None:
        """Know nothing of a partition that others may write to from now on."""
        with self._lock:
            self._chains.pop(partition, None)
        self._mine.discard(partition)
        self._log_partitions()

    def _log_partitions(self) -> None:
        numbers = sorted(partition.partition for partition in self._mine)
        _log.info("this member has %d partitions: %s", len(numbers), " ".join(map(str, numbers)))

    def _chain(self, partition: ehkafka.TopicPartition) -> Chain:
        with self._lock:
            if partition not in self._chains:
                self._chains[partition] = Chain(self._container, self._endpoint, partition)
            return self._chains[partition]

    def _rows(self, records: Sequence[Any]) -> list[Row]:
        readings = (counted(record.key(), record.value(), record.timestamp()[1]) for record in records)
        return rows_of((reading for reading in readings if reading is not None), self._windows)


def make_app(endpoint: ehkafka.Endpoint, minutes: Minutes) -> ehkafka.App:
    """Return the app that feeds `minutes`."""
    app = ehkafka.App(group=GROUP, endpoint=endpoint, start="earliest")
    app.on_assigned(minutes.assigned)
    app.on_revoked(minutes.forget)
    app.on_lost(minutes.forget)
    app.batch_handler(
        TOPIC,
        order_by=ehkafka.by_topic_partition,
        batch_records_max=MAX_RECORDS,
        wait_s_max=MAX_WAIT_S,
        workers=4,
    )(minutes.keep)
    return app


def main() -> None:
    """Run until a signal, or until standard input ends (`--while-stdin`)."""
    endpoint = app_endpoint()
    logging.getLogger("azure").setLevel(logging.WARNING)
    with open_container() as container:
        windows = Windows(length_s=int(os.environ.get("HOME_SECURITY_WINDOW_S", "10")))
        make_app(endpoint, Minutes(container, endpoint, windows)).run()


if __name__ == "__main__":
    main()
