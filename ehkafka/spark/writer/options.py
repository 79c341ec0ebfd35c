"""The writer's options, read and checked together. Pure.

The names are the JVM connector's where it has one, and those of the source that name the broker. The
result is frozen, picklable and holds no secret; it travels to every task. Called on the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.errors import ConfigurationError
from ehkafka.outputs.properties import MESSAGE_TIMEOUT_MS, refuse_owned
from ehkafka.spark import secrets
from ehkafka.spark.option_names import OptionNames
from ehkafka.spark.secrets import NamedEndpoint  # noqa: TC001 - dataclasses resolve it when asked
from ehkafka.spark.source import option_text
from ehkafka.spark.source.options import NAMES as OF_READERS

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS = (*secrets.WAYS, *secrets.ADDITIONS, "topic", "deliveryTimeoutMs")
_MEANT: Final[Mapping[str, str]] = {
    **{
        name.lower(): "it belongs to spark.read and spark.readStream: leave it out"
        for name in OF_READERS.taken
        if name not in _OPTIONS
    },
    "subscribe": "name the topic to write to with topic",
    "assign": "name the topic to write to with topic, and the partition of each row in a column partition",
    "path": "save() and start() take no path: name the topic with topic",
    "topics": "name the topic to write to with topic, or that of each row in a column topic",
    "bootstrap.servers": "did you mean kafka.bootstrap.servers?",
}
_NAMES = OptionNames(
    _OPTIONS,
    refused={},
    meant=_MEANT,
    of_spark=frozenset({"checkpointlocation", "queryname", "truncate", "outputmode"}),
)
_TIMEOUT = "message.timeout.ms"


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
    asked = in_one_spelling(dict(endpoint.properties), "Options kafka.…")
    if _TIMEOUT in asked:
        raise ConfigurationError(
            "Option kafka.message.timeout.ms is not supported: how long a task waits for the broker is"
            " deliveryTimeoutMs."
        )
    refuse_owned(asked)
    timeout_ms = options.get("deliveryTimeoutMs", str(MESSAGE_TIMEOUT_MS))
    return WriterOptions(
        endpoint=endpoint,
        topic=_topic(options["topic"]) if "topic" in options else None,
        timeout_s=option_text.count("deliveryTimeoutMs", timeout_ms) / 1000,
    )


def _topic(text: str) -> str:
    topics = option_text.topics("topic", text)
    if len(topics) > 1:
        raise ConfigurationError(
            "Option topic names several topics: give one, or name that of each row in a column topic."
        )
    return topics[0]
