"""A dead letter: the record as it came, and headers that say where it came from and why it failed.

Pure values. Header names are stable: `redrive` and other programs read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.records import Message, TopicPartition

PREFIX = "ehkafka-"
ORIGIN_TOPIC = "ehkafka-origin-topic"
ORIGIN_PARTITION = "ehkafka-origin-partition"
ORIGIN_OFFSET = "ehkafka-origin-offset"
ORIGIN_TIMESTAMP_MS = "ehkafka-origin-timestamp-ms"
ERROR_TYPE = "ehkafka-error-type"
ERROR_TEXT = "ehkafka-error-text"
ATTEMPTS = "ehkafka-attempts"
FAILED_AT_MS = "ehkafka-failed-at-ms"
HANDLER = "ehkafka-handler"
GROUP = "ehkafka-group"

# An error's text may repeat the record: a letter must not outgrow its topic for it.
ERROR_TEXT_CHARACTERS_MAX = 1_000

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True, repr=False)
class Letter:
    """A record that failed for good. `headers` are its own, trace context included, then its fate's."""

    origin: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def __repr__(self) -> str:
        # Never the value or headers: they may hold what must not be logged.
        return f"<Letter {self.origin}@{self.offset} key={self.key!r}>"


def letter_of(
    message: Message,
    partition: TopicPartition,
    *,
    error: BaseException | None,
    reason: str,
    attempts: int,
    failed_at_s: float,
    handler: str,
    group: str,
) -> Letter:
    """Return the letter for a record. `error` is None for one that only follows its key; see `reason`."""
    kind, timestamp_ms = message.timestamp()
    fate = {
        ORIGIN_TOPIC: partition.topic,
        ORIGIN_PARTITION: partition.partition,
        ORIGIN_OFFSET: message.offset(),
        ORIGIN_TIMESTAMP_MS: timestamp_ms if kind else "",
        ERROR_TYPE: "" if error is None else _type_name(error),
        ERROR_TEXT: reason[:ERROR_TEXT_CHARACTERS_MAX],
        ATTEMPTS: attempts,
        FAILED_AT_MS: int(failed_at_s * 1000),
        HANDLER: handler,
        GROUP: group,
    }
    # A record that was redriven and failed again has these from its first time.
    own: Headers = [(name, value) for name, value in message.headers() or [] if name not in fate]
    return Letter(
        partition,
        message.offset(),
        message.key(),
        message.value(),
        own + [(name, str(value).encode()) for name, value in fate.items()],
    )


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
