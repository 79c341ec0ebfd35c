"""Whether a text can be handed to the C library and to a broker at all; some of what cannot ends the process.

Pure. librdkafka ends a text at a NUL character, and confluent-kafka 2.14 aborts, or writes where nothing is,
for text that is not UTF-8, a blank group and a topic of more than 512 characters. Called wherever names and
properties come in from code, files, variables and command lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ehkafka.endpoint.properties.limits import KAFKA_TEXT_BYTES_MAX
from ehkafka.errors import ConfigurationError

CLIENT_TOPIC_CHARACTERS_MAX: Final = 512
"""Longest topic name that librdkafka makes a partition of. Source: its `rd_kafka_topic_new0`."""


def check_text(text: str, what: str) -> None:
    """Refuse text that cannot be sent. Raises `ConfigurationError` without it, for it may be a secret."""
    if "\0" in text:
        raise ConfigurationError(f"{what} contains a NUL character: remove that character.")
    if not is_utf_8(text):
        raise ConfigurationError(
            f"{what} is not UTF-8: it was read from bytes in another encoding. Correct its source."
        )


def is_utf_8(text: str) -> bool:
    """Say whether the text can be encoded; what Python read with `surrogateescape` cannot."""
    return not any("\ud800" <= one <= "\udfff" for one in text)


def check_client_texts(config: Mapping[Any, object], who: str) -> None:
    """Refuse properties of a plain client that would end the process. Raises `ConfigurationError`.

    Values that are no text count as their text, which is what confluent-kafka hands on.
    """
    for name, value in config.items():
        if not isinstance(name, str):
            continue  # confluent-kafka says so
        check_text(name, f"{who}: a property's name")
        if isinstance(value, Mapping):
            check_client_texts(value, who)
        elif value is not None and not callable(value):
            check_text(str(value), f"{who}: the value of {name}")
    group = config.get("group.id")
    if group is not None and (size_bytes := len(str(group).encode())) > KAFKA_TEXT_BYTES_MAX:
        raise ConfigurationError(
            f"{who}: group.id has {size_bytes} bytes, but Kafka's protocol allows {KAFKA_TEXT_BYTES_MAX}. "
            f"Choose a shorter name."
        )


def check_topics(topics: object, who: str) -> None:
    """Refuse names that end the process; others are confluent-kafka's. Raises `ConfigurationError`."""
    if not isinstance(topics, list | tuple):
        return
    for topic in topics:
        if not isinstance(topic, str):
            continue
        check_text(topic, f"{who}: the topic {topic[:80]!a}")
        if len(topic.encode()) > CLIENT_TOPIC_CHARACTERS_MAX:
            raise ConfigurationError(
                f"{who}: the topic {topic[:20]!a}… has {len(topic)} characters, but Kafka allows 249: "
                "choose a shorter name."
            )
