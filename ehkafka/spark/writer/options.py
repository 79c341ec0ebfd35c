"""What a write is given: its options, and the columns of its frame. Checked on the driver. Pure.

Options have the JVM connector's names where it has one, and those of the source that name the broker; columns
have its names and types. The result is frozen, picklable and holds no secret; it travels to every task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.errors import ConfigurationError
from ehkafka.outputs.properties import MESSAGE_TIMEOUT_MS, refuse_owned
from ehkafka.spark import secrets
from ehkafka.spark.option_names import OF_WRITES, OptionNames
from ehkafka.spark.secrets import NamedEndpoint  # noqa: TC001 - dataclasses resolve it when asked
from ehkafka.spark.source import option_text
from ehkafka.spark.source.options import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OPTIONS = (*secrets.WAYS, *secrets.ADDITIONS, "topic", "deliveryTimeoutMs")
_OF_READERS = "it belongs to spark.read and spark.readStream: leave it out"
_NAMES = OptionNames(
    _OPTIONS,
    refused={
        "kafka.message.timeout.ms": "how long a task waits for the broker is deliveryTimeoutMs",
        "kafka.delivery.timeout.ms": "how long a task waits for the broker is deliveryTimeoutMs",
        "kafka.queue.buffering.max.messages": "a task keeps up to 100,000 rows",
        "kafka.queue.buffering.max.kbytes": "a task keeps up to 32 MiB of rows",
    },
    meant={
        **dict.fromkeys(map(str.lower, NAMES.taken), _OF_READERS),
        "subscribe": "name the topic to write to with topic",
        "assign": "name the topic with topic, and the partition of each row in a column partition",
        "path": "save() and start() take no path: name the topic with topic",
        "bootstrap.servers": "did you mean kafka.bootstrap.servers?",
    },
    of_spark=OF_WRITES,
)
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""Columns by name, with Spark's words for the types that each may have. Other columns are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """Everything that a task needs to know. Without `topic`, a column or the connection string names it."""

    endpoint: NamedEndpoint
    topic: str | None = None
    # How long a task waits while the broker writes nothing.
    timeout_s: float = MESSAGE_TIMEOUT_MS / 1000


def writer_options(given: Mapping[str, str]) -> WriterOptions:
    """Return the options of a write. Raises `ConfigurationError` that names the option and the next step."""
    options = _NAMES.in_our_spelling(given)
    endpoint = secrets.named_endpoint(options)
    refuse_owned(in_one_spelling(dict(endpoint.properties), "Options kafka.…"))
    topics = option_text.topics("topic", options["topic"]) if "topic" in options else (None,)
    if len(topics) > 1:
        raise ConfigurationError(
            "Option topic names several topics: give one, or name the topic of each row in a column topic."
        )
    timeout_ms = options.get("deliveryTimeoutMs", str(MESSAGE_TIMEOUT_MS))
    timeout_s = option_text.count("deliveryTimeoutMs", timeout_ms) / 1000
    return WriterOptions(endpoint=endpoint, topic=topics[0], timeout_s=timeout_s)


def check_columns(columns: Sequence[tuple[str, str]]) -> None:
    """Check pairs of a column's name and the text of its type. Raises `ConfigurationError`."""
    names = [name for name, _ in columns]
    for name, kind in columns:
        if name not in COLUMNS:
            continue
        if names.count(name) > 1:
            raise ConfigurationError(f"Two columns are called {name}: rename one with withColumnRenamed.")
        # A string may name its collation behind it.
        if (kind if kind[:7] != "string " else "string") not in COLUMNS[name]:
            fix = "convert it with to_json" if "<" in kind and name != "headers" else "cast it"
            raise ConfigurationError(
                f"Column {name} is of type {kind}, but must be of type {' or '.join(COLUMNS[name])}: {fix}."
            )
    if "value" not in names:
        raise ConfigurationError(
            "The frame has no column named value, which ehkafka writes; the frame's columns are:"
            f" {', '.join(names)}. Add the column, as with selectExpr('to_json(struct(*)) AS value')."
        )
