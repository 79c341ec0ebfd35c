"""Everything public called with values that no caller means; prints how each call ended, one JSON line each.

Run as a program, because a fault here ends the process: `hostile_values.py FIRST` begins with that case.
A line is printed before each call and one after it, so that who reads knows which call it was.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Message, TopicPartition

import ehkafka
from ehkafka import BlobMirror
from ehkafka.checkpoints import FileStore, StoreMirror
from ehkafka.endpoint.properties.known_names import KNOWN
from ehkafka.endpoint.properties.layers import consumer_properties
from ehkafka.settings import Settings
from ehkafka.testing import EmbeddedBroker

# Properties with which clients are made: of each kind of value, and those that ended the process.
CLIENTS = (
    "acks", "allow.auto.create.topics", "client.id", "debug", "error_cb", "group.id",
    "group.instance.id", "partition.assignment.strategy", "plugin.library.paths", "security.protocol",
    "ssl.ca.pem", "topic.blacklist",
)  # fmt: skip
Case = tuple[str, Callable[[], object]]
ADDRESS = "127.0.0.1:9"
KEY = "aHVudGVyMg=="
STRING = f"Endpoint=sb://home.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey={KEY}"
LONG = "x" * 100_000


def values() -> dict[str, Any]:
    """Return what may be handed over instead of what is wanted, by a name."""
    return {
        "none": None,
        "true": True,
        "zero": 0,
        "minus one": -1,
        "huge": 2**70,
        "infinite": math.inf,
        "no number": math.nan,
        "empty": "",
        "blank": " ",
        "nul": "\0",
        "nul inside": "a\0b",
        "no utf-8": "caf\udce9",
        "long": LONG,
        "two lines": "a\nb",
        "bytes": b"\xff",
        "list": [],
        "list of none": [None],
        "list of no utf-8": ["caf\udce9"],
        "dict": {},
        "dict of none": {None: 1},
        "dict of numbers": {1: 1},
        "dict of no utf-8": {"caf\udce9": "x"},
        "dict to no utf-8": {"client.id": "caf\udce9"},
        "dict to none": {"client.id": None},
        "dict to object": {"client.id": object()},
        "object": object(),
        "class": int,
        "function": lambda: None,
        "path": Path("/nowhere"),
    }


def keyed(value: Any) -> dict[Any, int]:
    """Return a mapping with this name in it; of what cannot be one, an empty one."""
    try:
        return {value: 1}
    except TypeError:
        return {}


def app(**settings: Any) -> ehkafka.App:
    """Return an app that would work, but for these."""
    usual = {"group": "g", "endpoint": ehkafka.Endpoint.kafka(ADDRESS), "start": "earliest"}
    return ehkafka.App(**{**usual, **settings})


def handled(app: ehkafka.App) -> ehkafka.App:
    """Give it a handler."""
    app.handler("t")(lambda _record: None)
    return app


def app_properties(name: str, value: Any) -> object:
    """Return what an app's consumer would be made of."""
    endpoint = ehkafka.Endpoint.kafka(ADDRESS)
    return consumer_properties(endpoint, "g", {name: value}, assignor="default", instance_id=None)


def drop_in(config: Any, **named: Any) -> None:
    """Make a consumer, use it a little, close it."""
    consumer = ehkafka.Consumer(config, **named)
    try:
        consumer.subscribe(["t"])
    finally:
        consumer.close()


@functools.cache
def open_drop_in() -> ehkafka.Consumer:
    """Return a consumer that works; one for all calls, closed by the end of the process."""
    # A commit waits so long for a coordinator, and librdkafka's pause() for the commit.
    soon = {"session.timeout.ms": 1000, "heartbeat.interval.ms": 300}
    return ehkafka.Consumer({"bootstrap.servers": ADDRESS, "group.id": "g", "log_level": 0, **soon})


def on_drop_in(call: Callable[[ehkafka.Consumer], object]) -> None:
    """Call something of a consumer that works."""
    call(open_drop_in())


def keywords(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's options."""
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    found = inspect.signature(function).parameters.values()
    return [one.name for one in found if one.kind in kinds and one.name not in ("self", "cls")]


def calls() -> dict[str, Callable[[Any], object]]:
    """Return what is called with each of the values, by a name."""
    endpoint, kafka = ehkafka.Endpoint, ehkafka.Endpoint.kafka
    found: dict[str, Callable[[Any], object]] = {
        "Endpoint.kafka(…)": kafka,
        "Endpoint.kafka(…, properties=…)": lambda v: kafka(ADDRESS, v),
        "Endpoint.connection_string(…)": endpoint.connection_string,
        "Endpoint.connection_string(…, properties=…)": lambda v: endpoint.connection_string(
            STRING, properties=v
        ),
        "Endpoint.connection_string(lambda: …)": lambda v: endpoint.connection_string(lambda: v),
        "Endpoint.entra(…)": endpoint.entra,
        "Endpoint.entra(credential=…)": lambda v: endpoint.entra("home", v),
        "Endpoint.entra(client_id=…)": lambda v: endpoint.entra("home", "managed_identity", client_id=v),
        "Endpoint.entra(properties=…)": lambda v: endpoint.entra("home", "cli", properties=v),
        "Endpoint.from_env(…)": endpoint.from_env,
        "Endpoint.from_env(prefix=…)": lambda v: endpoint.from_env({}, v),
        "Endpoint.from_settings(…)": endpoint.from_settings,
        "Endpoint.from_settings(properties=…)": lambda v: endpoint.from_settings(
            {"bootstrap": ADDRESS}, properties=v
        ),
        "Endpoint.embedded(…)": endpoint.embedded,
        "Endpoint.embedded(partitions=…)": lambda v: endpoint.embedded(partitions=v),
        "Endpoint.embedded({…: 1})": lambda v: endpoint.embedded(keyed(v)),
        "Endpoint.embedded({'t': …})": lambda v: endpoint.embedded({"t": v}),
        "embedded.prepare_topics(…)": prepared,
        "embedded.prepare_topics([…])": lambda v: prepared([v]),
        "App(endpoint=…)": lambda v: app(endpoint=v),
        "App(mirror=…)": lambda v: app(mirror=v),
        "app.handler(…)": lambda v: app().handler(v),
        "app.handler('t')(…)": app().handler("t"),
        "app.batch_handler(…)": lambda v: app().batch_handler(v),
        "app.batch_handler('t')(…)": app().batch_handler("t"),
        "app.add_hook(…)": lambda v: app().add_hook(v),
        "app.use(…)": lambda v: app().use(v),
        "app.on_assigned(…)": lambda v: app().on_assigned(v),
        "app.on_start(…)": lambda v: app().on_start(v),
        "app.on_worker_start(…)": lambda v: app().on_worker_start(v),
        "app.resize(…)": lambda v: handled(app()).resize(v, workers=2),
        "app.resize(workers=…)": lambda v: handled(app()).resize("handler", workers=v),
        "app.stop(drain=…)": lambda v: app().stop(drain=v),
        "app.stop(timeout_s=…)": lambda v: app().stop(timeout_s=v),
        "app.wait(…)": lambda v: app().wait(v),
        "adapt(…)": ehkafka.adapt,
        "defer(…)": ehkafka.defer,
        "app.configure(origins=…)": lambda v: app().configure(origins=v),
        "Endpoint.from_settings(file)": lambda v: endpoint.from_settings({"connection_string_file": v}),
        "Consumer(default.topic.config)": lambda v: drop_in(
            {"bootstrap.servers": ADDRESS, "default.topic.config": {"default.topic.config": {"group.id": v}}}
        ),
        "FileStore(…)": FileStore,
        "StoreMirror(…)": lambda v: StoreMirror(store=v),
        "DeserializingConsumer(…)": ehkafka.DeserializingConsumer,
        "DeserializingConsumer(value.deserializer)": lambda v: ehkafka.DeserializingConsumer(
            {"bootstrap.servers": ADDRESS, "group.id": "g", "value.deserializer": v}
        ),
        "Consumer(…)": drop_in,
        "subscribe(…)": lambda v: on_drop_in(lambda c: c.subscribe(v)),
        "subscribe([…])": lambda v: on_drop_in(lambda c: c.subscribe([v])),
        "subscribe(on_assign=…)": lambda v: on_drop_in(lambda c: c.subscribe(["t"], on_assign=v)),
        "TopicPartition(…)": lambda v: on_drop_in(lambda c: c.assign([TopicPartition(v, 0)])),
        "list_topics(…)": lambda v: on_drop_in(lambda c: c.list_topics(v, timeout=0.01)),
        "committed([…])": lambda v: on_drop_in(lambda c: c.committed([TopicPartition(v, 0)], timeout=0.01)),
        "seek(…)": lambda v: on_drop_in(lambda c: c.seek(TopicPartition(v, 0, 0))),
        "store_offsets(…)": lambda v: on_drop_in(lambda c: c.store_offsets(None, [TopicPartition(v, 0, 1)])),
        "incremental_assign(…)": lambda v: on_drop_in(lambda c: c.incremental_assign([TopicPartition(v, 0)])),
        "commit(message)": lambda v: on_drop_in(lambda c: c.commit(Message(topic=v, partition=0, offset=1))),
        "EmbeddedBroker(…)": EmbeddedBroker,
        "pause([…])": lambda v: on_drop_in(lambda c: c.pause([TopicPartition(v, 0)])),
    }  # fmt: skip
    for name in (field.name for field in dataclasses.fields(Settings)):
        found[f"App({name}=…)"] = lambda v, name=name: app(**{name: v})
    for name in keywords(ehkafka.App.handler):
        found[f"app.handler('t', {name}=…)"] = lambda v, name=name: app().handler("t", **{name: v})(_handle)
    for name in keywords(ehkafka.App.batch_handler):
        found[f"app.batch_handler('t', {name}=…)"] = lambda v, name=name: app().batch_handler(
            "t", **{name: v}
        )(_handle_batch)
    needed: dict[Any, dict[str, Any]] = {
        ehkafka.DeadLetter: {"to": "t.dead"},
        ehkafka.Retry: {},
        ehkafka.Processes: {},
        ehkafka.RejectRecord: {},
        ehkafka.SkipRecord: {},
        ehkafka.RetryLater: {"after_s": 1.0},
        BlobMirror: {"container_url": "https://home.blob.core.windows.net/c"},
    }
    for kind, usual in needed.items():
        for name in keywords(kind):
            found[f"{kind.__name__}({name}=…)"] = lambda v, k=kind, u=usual, n=name: k(**{**u, n: v})
    for name in keywords(ehkafka.Consumer):
        found[f"Consumer({name}=…)"] = lambda v, name=name: drop_in(
            {"bootstrap.servers": ADDRESS, "group.id": "g"}, **{name: v}
        )
    return found


def properties() -> Iterator[Case]:
    """Yield each of librdkafka's properties with each kind of text that could end the process."""
    bad = ("none", "empty", "blank", "nul", "nul inside", "no utf-8", "long", "two lines", "object", "list")
    chosen = {name: value for name, value in values().items() if name in bad}
    for name in sorted(KNOWN):
        for label, value in chosen.items():
            if name in CLIENTS:
                whole = {"bootstrap.servers": ADDRESS, "group.id": "g", "log_level": 0, name: value}
                yield f"Consumer({{{name!r}: …}}) {label}", lambda whole=whole: drop_in(whole)
            yield (
                f"App(consumer={{{name!r}: …}}) {label}",
                lambda name=name, value=value: app_properties(name, value),
            )


def cases() -> list[Case]:
    """Return all calls, in an order that does not change."""
    result: list[Case] = [
        (f"{name} {label}", lambda call=call, value=value: call(value))
        for name, call in calls().items()
        for label, value in values().items()
    ]
    return [*result, *properties()]


def prepared(topics: Any) -> None:
    """Ask an embedded broker for topics."""
    with ehkafka.Endpoint.embedded() as endpoint:
        endpoint.prepare_topics(topics)


def _handle(_record: Any) -> None:
    """Do nothing."""


def _handle_batch(_batch: Any) -> None:
    """Do nothing."""


def say(line: list[Any]) -> None:
    """Write a line of JSON, at once."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Call them all, from the given one on."""
    for number, (name, call) in enumerate(cases()[int(sys.argv[1]) :], int(sys.argv[1])):
        say([number, name])
        try:
            call()
            ended: list[str] = []
        except BaseException as error:
            ended = [type(error).__name__, str(error)]
        say([number, name, ended])


if __name__ == "__main__":
    main()
