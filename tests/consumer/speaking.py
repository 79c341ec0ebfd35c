"""How a program of a test opens one of two consumers and tells what each call did, line by line.

Read by `calls.py` and `misuse.py`, which are started with the same arguments.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer as Bare
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

MODULE, SCENARIO, BOOTSTRAP, TOPIC, PROPERTIES = sys.argv[1:]
CONSUMER: type[Bare] = importlib.import_module(MODULE).Consumer
BASE = {"bootstrap.servers": BOOTSTRAP, "auto.offset.reset": "earliest", "log_level": 0} | json.loads(
    PROPERTIES
)
LIMIT_S = 20.0
CALLBACKS = {"on_commit", "stats_cb", "error_cb", "throttle_cb"}


def open_consumer(group: str = "group", **properties: Any) -> Bare:
    """Return a consumer of a group of this topic's own."""
    dotted = {name if name in CALLBACKS else name.replace("_", "."): properties[name] for name in properties}
    manual = {"group.id": f"{group}-{TOPIC}", "enable.auto.commit": False}
    return CONSUMER(BASE | manual | dotted)


def report(what: str, result: Any) -> None:
    """Print one line; names of this run look the same in every run."""
    sys.stdout.write(f"{what}: {shown(result)}\n".replace(TOPIC, "TOPIC"))
    sys.stdout.flush()


def shown(value: Any) -> str:
    """Return all that a program can read of a result."""
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, TopicPartition):
        return f"{value!r} {value.metadata!r}"
    if isinstance(value, Message):
        error = value.error()
        text = error.name() if error is not None else None
        return f"message {value.partition()}@{value.offset()} {value.key()!r} {value.value()!r} {text}"
    if isinstance(value, KafkaError):
        return f"{value.name()} {value.str()!r}"
    return repr(value)


def call(what: str, function: Any, *arguments: Any, **named: Any) -> Any:
    """Call, tell the result or the exception, and return the result."""
    try:
        result = function(*arguments, **named)
    except KafkaException as error:
        report(what, f"raised KafkaException {shown(error.args[0])}")
    except Exception as error:
        report(what, f"raised {type(error).__name__} {error}")
    else:
        report(what, result)
        return result
    return None


def read(consumer: Bare, count: int) -> list[Message]:
    """Poll until there are so many records."""
    found: list[Message] = []
    ends_s = time.monotonic() + LIMIT_S
    while len(found) < count and time.monotonic() < ends_s:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            found.append(message)
    return found


def until(consumer: Bare, condition: Any) -> None:
    """Poll until something has happened."""
    ends_s = time.monotonic() + LIMIT_S
    while not condition() and time.monotonic() < ends_s:
        consumer.poll(0.05)


def at(partition: int, *offset: int) -> TopicPartition:
    """Return a partition of the topic."""
    return TopicPartition(TOPIC, partition, *offset)
