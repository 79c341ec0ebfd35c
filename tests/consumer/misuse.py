"""Call every method of a consumer as no program should, in one of two classes; print what each did.

Run like `calls.py`: a matrix of methods and arguments, in each state of a consumer.
Where the number or the names of arguments are wrong, only the kind of error is reported: Python words it
otherwise for its own functions than confluent-kafka does for C's.
"""

from __future__ import annotations

import contextlib
import gc
import io
import re
import sys
import threading
from functools import partial
from typing import Any

from confluent_kafka import Message, TopicPartition
from speaking import BASE, CONSUMER, LIMIT_S, SCENARIO, TOPIC, at, call, open_consumer, read, report, until

import ehkafka

ARITY = re.compile(r"['\"](raised TypeError ).*(argument|given).*")
# Addresses, and the embedded broker's own name.
RANDOM = re.compile(r"( at )?0x[0-9a-f]+|mockCluster[0-9a-f]+")
# Several topics of a subscription may be missing: which one is reported first is the client's own affair.
MISSING = re.compile(r"(topic not available: )[^:]*")


class Derived(TopicPartition):
    """A program's own kind of partition."""


class Uninitialised(CONSUMER):  # type: ignore[misc, valid-type]
    """A program's class that forgot to call the constructor above it."""

    def __init__(self) -> None:
        pass


def values() -> dict[str, Any]:
    """Return what may be handed over instead of what is wanted."""
    return {
        "none": None,
        "text": "0",
        "bytes": b"0",
        "minus one": -1,
        "a fraction": 1.5,
        "true": True,
        "a huge number": 2**70,
        "a dict": {},
        "a tuple": (at(0),),
        "an iterator": iter([at(0)]),
        "no list": [],
        "none in a list": [None],
        "text in a list": ["0"],
        "pairs": [(TOPIC, 0)],
        "one partition": at(0),
        "ours": ehkafka.TopicPartition(TOPIC, 0),
        "ours in a list": [ehkafka.TopicPartition(TOPIC, 0)],
        "a derived partition": [Derived(TOPIC, 0, 1)],
        "an unknown topic": [TopicPartition("none", 0, 0)],
        "an unknown partition": [at(99, 0)],
        "a negative partition": [at(-1, 0)],
        "a negative offset": [at(0, -5)],
        "twice the same": [at(0, 1), at(0, 2)],
        "good and bad": [at(0, 1), None],
        "a message": Message(),
        "a message without an offset": Message(topic=TOPIC, partition=0),
        "a message without a partition": Message(topic=TOPIC, offset=3),
        "a made message": Message(topic=TOPIC, partition=0, offset=3),
    }


# What blocks without one gets a time-out; what a number makes wait for ever is not called with it.
TIMED = ("committed", "get_watermark_offsets", "offsets_for_times", "list_topics", "cluster_id")
PLAIN = (
    "assign", "incremental_assign", "incremental_unassign", "pause", "resume", "position", "seek",
    "subscribe", "store_offsets", "assignment", "unassign", "unsubscribe", "memberid",
    "consumer_group_metadata",
)  # fmt: skip
WAITS_FOR_EVER = {"none", "minus one", "a huge number"}


def say(what: str, function: Any, *arguments: Any, **named: Any) -> None:
    """Call and report; errors of arity by their kind alone."""
    noted, printed = io.StringIO(), sys.stdout
    with contextlib.redirect_stdout(noted):
        call(what, function, *arguments, **named)
    line = MISSING.sub(r"\1one", RANDOM.sub("", noted.getvalue()))
    printed.write(ARITY.sub(r"\1arity", line))
    printed.flush()


def matrix(state: str, consumer: Any) -> None:
    """Call all with all."""
    for name, value in values().items():
        for method in PLAIN:
            say(f"{state} {method} {name}", getattr(consumer, method), value)
        for method in TIMED:
            say(f"{state} {method} {name}", getattr(consumer, method), value, timeout=0.2)
        say(f"{state} store_offsets offsets={name}", consumer.store_offsets, offsets=value)
        say(f"{state} subscribe on_assign={name}", consumer.subscribe, [TOPIC], on_assign=value)
        say(f"{state} commit {name}", partial(consumer.commit, asynchronous=False), value)
        say(f"{state} commit offsets={name}", consumer.commit, offsets=value, asynchronous=False)
        say(f"{state} commit both {name}", consumer.commit, value, [at(0, 1)], asynchronous=False)
        say(f"{state} consume timeout {name}", consumer.consume, 0, value)
        say(f"{state} set_sasl_credentials {name}", consumer.set_sasl_credentials, value, value)
        if name not in WAITS_FOR_EVER:
            say(f"{state} poll {name}", consumer.poll, value if value is not True else 0)
            say(f"{state} consume {name}", consumer.consume, value if value is not True else 0, 0)
    arity(state, consumer)


def arity(state: str, consumer: Any) -> None:
    """Call all with too much, too little and names that they do not know."""
    for method in ("poll", "consume", "commit", "close", "__exit__", *PLAIN, *TIMED):
        if method not in {"poll", "close", "unassign", "unsubscribe", *TIMED}:
            say(f"{state} {method} empty", getattr(consumer, method))
        if method != "commit" or state not in {"closed", "uninitialised"}:  # which is said first
            say(f"{state} {method} too many", getattr(consumer, method), *[None] * 9)
        say(f"{state} {method} unknown", getattr(consumer, method), wrong=1)
    say(f"{state} subscribe by name", consumer.subscribe, topics=[])
    say(f"{state} subscribe four", consumer.subscribe, [TOPIC], print, print, print, print)
    say(f"{state} subscribe unknown", consumer.subscribe, [TOPIC], wrong=print)
    say(f"{state} commit by an older name", consumer.commit, None, [at(0, 1)], **{"async": False})
    say(f"{state} init again with properties", consumer.__init__, {"group.id": "again"})
    for operation in (len, iter, int, bool, lambda one: one[0], lambda one: one + one, hash):
        with contextlib.suppress(TypeError):
            report(f"{state} operation", type(operation(consumer)).__name__)


def misusing() -> None:
    """Nothing subscribed, closed, never initialised."""
    matrix("uninitialised", Uninitialised())
    say("uninitialised enter", lambda: type(Uninitialised().__enter__()).__name__)
    say("uninitialised exit", Uninitialised().__exit__, None, None, None)
    say("uninitialised close", Uninitialised().close)
    gc.collect()
    say("no arguments", lambda: CONSUMER())  # noqa: PLW0108 - an unpacked empty dict is something else
    for name, value in values().items():
        say(f"construct {name}", CONSUMER, value)
        say(
            f"construct {name} with properties",
            lambda value=value: CONSUMER(value, **{"group.id": "g"}).close(),
        )
        say(f"construct {name} twice", CONSUMER, value, value)
        for setting in ("group.id", "on_commit", "error_cb", "stats_cb", "enable.auto.commit", "logger"):
            if name != "none" or setting != "group.id":  # confluent-kafka aborts the process
                say(f"construct {setting} {name}", _opened, {"group.id": "g", setting: value})
    consumer = open_consumer("misusing")
    matrix("fresh", consumer)
    say("exit too early", consumer.__exit__, None, None, None)
    matrix("closed", consumer)
    consumer.close()
    with open_consumer("misusing") as consumer:
        consumer.close()  # inside of its block, which closes it again
    report("closed twice", "quietly")


def _opened(properties: dict[str, Any]) -> None:
    CONSUMER(BASE | properties).close()


def misusing_while_reading() -> None:
    """Assigned, from another thread, in callbacks."""
    consumer = open_consumer("reading-misused")
    consumer.subscribe([TOPIC])
    last = {message.partition(): message for message in read(consumer, 20)}
    for name, value in values().items():
        for method in ("pause", "resume", "position", "seek", "store_offsets"):
            say(f"reading {method} {name}", getattr(consumer, method), value)
        say(f"reading commit {name}", partial(consumer.commit, asynchronous=False), value)
        say(f"reading commit offsets={name}", consumer.commit, offsets=value, asynchronous=False)
        say(f"reading committed {name}", consumer.committed, value, timeout=1.0)
        for flag in ("asynchronous", "async"):
            if name != "none":
                say(f"reading {flag}={name}", consumer.commit, last[0], **{flag: value})
    last[0].set_value(None)
    last[0].set_key(17)
    say("commit of a changed message", consumer.commit, last[0], asynchronous=False)
    thread = threading.Thread(target=lambda: arity("elsewhere", consumer))
    thread.start()
    thread.join(LIMIT_S)
    report("the thread has ended", not thread.is_alive())
    consumer.close()
    for where in ("on_assign", "on_revoke"):
        _in_callback(where)


def _in_callback(where: str) -> None:
    """Every method once, inside a rebalance callback; only what assigns nothing and waits for nothing."""
    noted: list[str] = []

    def misuse(consumer: Any, partitions: list[TopicPartition]) -> None:
        if noted:
            return
        noted.append(where)
        for name in ("none", "text", "no list", "none in a list", "an unknown topic", "a negative offset"):
            value = values()[name]
            for method in ("pause", "resume", "position", "store_offsets", "commit", "subscribe"):
                if method != "subscribe" or not isinstance(value, list):  # others change the subscription
                    say(f"{where} {method} {name}", getattr(consumer, method), value)
        say(f"{where} the partitions", len, partitions)
        say(f"{where} memberid", lambda: type(consumer.memberid()).__name__)
        say(f"{where} committed", consumer.committed, partitions[:0], timeout=1.0)
        say(f"{where} assignment", lambda: type(consumer.assignment()).__name__)

    consumer = open_consumer(f"misused-{where}")
    consumer.subscribe([TOPIC], **{where: misuse})
    until(consumer, consumer.assignment)
    if where == "on_revoke":
        consumer.unsubscribe()
    until(consumer, lambda: noted)
    report("heard", noted)
    consumer.close()


if __name__ == "__main__":
    globals()[SCENARIO]()
    sys.stdout.write("the end\n")
