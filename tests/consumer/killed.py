"""A loop that commits without arguments after each batch, and hangs over the next one until it is killed.

    python killed.py confluent_kafka|ehkafka BOOTSTRAP TOPIC GROUP

Prints the offset behind what it has handled.
"""

from __future__ import annotations

import importlib
import sys
import time

from confluent_kafka import TopicPartition

module, bootstrap, topic, group = sys.argv[1:]
consumer = importlib.import_module(module).Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
)
consumer.assign([TopicPartition(topic, 0)])
handled = 0
for _ in range(2):
    batch = consumer.consume(500, 0.1) or consumer.consume(500, 5.0)
    handled = batch[-1].offset() + 1
    consumer.commit()
batch = consumer.consume(500, 0.1)  # the program has handled none of these
sys.stdout.write(f"{handled}\n")
sys.stdout.flush()
time.sleep(60)
