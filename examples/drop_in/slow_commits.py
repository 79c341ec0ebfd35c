"""What commits cost where they are slow: confluent-kafka's consumer and ehkafka's, each on its own broker.

    python slow_commits.py        40 commits, about a minute and a half
    python slow_commits.py 8      fewer

Users of Event Hubs measured 1.1 s for each commit beyond two a second; the broker here, in this process,
takes 1.1 s for every commit. One program commits every message asynchronously and closes; in the other, eight
threads commit synchronously, message by message. Needs no broker.
"""

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import confluent_kafka

import ehkafka
from ehkafka.testing import EmbeddedBroker

sys.path.append(str(Path(__file__).resolve().parents[2]))  # the checkout, for its `tests.kit`
from tests.kit.faults.kafka_proxy import CommitPolicy, KafkaProxy

RECORDS = int(sys.argv[1]) if len(sys.argv) > 1 else 40
THREADS = 8


def consumer_on(kind: type[confluent_kafka.Consumer], broker: EmbeddedBroker) -> confluent_kafka.Consumer:
    consumer = kind(
        {**broker.consumer_properties, "group.id": "slow", "enable.auto.commit": False, "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition("readings", 0, 0)])
    return consumer


def read(consumer: confluent_kafka.Consumer) -> list[confluent_kafka.Message]:
    messages: list[confluent_kafka.Message] = []
    while len(messages) < RECORDS:
        messages += consumer.consume(RECORDS - len(messages), 1.0)
    return messages


def asynchronously(consumer: confluent_kafka.Consumer) -> None:
    for message in read(consumer):
        consumer.commit(message=message)
        consumer.poll(0)
    consumer.close()


def in_threads(consumer: confluent_kafka.Consumer) -> None:
    messages = read(consumer)
    lock = threading.Lock()

    def work(_: int) -> None:
        while True:
            with lock:
                if not messages:
                    return
                message = messages.pop(0)
            consumer.commit(message=message, asynchronous=False)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
    consumer.close()


def measure(kind: type[confluent_kafka.Consumer], program: Callable[[confluent_kafka.Consumer], None]) -> str:
    with EmbeddedBroker({"readings": 1}) as broker, KafkaProxy(broker.bootstrap) as slow:
        broker.produce("readings", [(None, b"1")] * RECORDS)
        broker.advertise("127.0.0.1", slow.port)
        slow.policy = CommitPolicy(delay_s=1.1)
        consumer = consumer_on(kind, broker)
        began_s = time.monotonic()
        program(consumer)
        return f"{time.monotonic() - began_s:5.1f} s, {len(slow.commits):3} requests"


print(f"{'':34}{'confluent_kafka.Consumer':26}ehkafka.Consumer")
for what, program in (
    (f"{RECORDS} asynchronous commits", asynchronously),
    (f"{RECORDS} synchronous in {THREADS} threads", in_threads),
):
    times = [measure(kind, program) for kind in (confluent_kafka.Consumer, ehkafka.Consumer)]
    print(f"{what:34}{times[0]:26}{times[1]}")
