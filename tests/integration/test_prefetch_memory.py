"""What an app has in memory stays within its limits, whatever its records consist of."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from confluent_kafka import Producer

if TYPE_CHECKING:
    from ehkafka.testing.kafka.broker import KafkaBroker

RECORDS, SIZE = 1_500, 100_000
LIMIT_MB = 100
APP = """
import sys, time, ehkafka
from pathlib import Path
app = ehkafka.App(group=sys.argv[2], endpoint=ehkafka.Endpoint.kafka(sys.argv[1]), start="earliest",
                  backlog_bytes_max=16 << 20, stop_s=1.0)
@app.handler(sys.argv[2], workers=4)
def handle(record):
    time.sleep(0.2)
with app:
    deadline_s, received = time.monotonic() + 30, 0
    while app.snapshot().received_records < 20 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    time.sleep(1.5)  # the broker gives all of it within a second
    print(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
"""


def test_large_headers_and_keys_stay_with_the_broker(kafka: KafkaBroker) -> None:
    """150 MB of them wait; librdkafka counts none of it and would take all."""
    topic = "large-headers-and-keys"
    kafka.create_topic(topic, 4)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 20, "log_level": 0})
    large = os.urandom(SIZE)
    for number in range(RECORDS):
        key = large[: SIZE // 2] + b"%d" % number
        producer.produce(topic, None, key, partition=number % 4, headers=[("h", large[SIZE // 2 :])])
        while len(producer) > 200:
            producer.poll(0.01)
    assert producer.flush(60) == 0
    command = [sys.executable, "-c", APP, kafka.bootstrap, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    kafka.delete_topic(topic)
    assert int(done.stdout) / 1024 < LIMIT_MB
