"""All offsets of a batch that cannot be read are named: its records are not looked at."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from tests.kit.broken_batches import broken_batch, good_batch, write_batch


def test_a_wrong_checksum_that_ends_librdkafkas_process_is_got_past(embedded_broker_factory: Any) -> None:
    """Behind it the client reads on at a wrong place; here it finds what its assertions do not allow."""
    broker = embedded_broker_factory({"t": 1})
    for batch in (
        good_batch([b"1", b"2"]),
        broken_batch("checksum", 3, b"never to be seen"),
        good_batch([b"6"]),
    ):
        write_batch(broker, "t", batch)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    consumer.commit(offsets=[KafkaPartition("t", 0, 2)], asynchronous=False)
    consumer.close()
    command = [sys.executable, "-m", "ehkafka.cli", "offsets", "skip", "t/0@2-4", "--group", "g", "--yes"]
    done = subprocess.run(
        [*command, "--endpoint", broker.bootstrap, "--watch-for", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert broker.committed("g", "t") == {0: 5}
