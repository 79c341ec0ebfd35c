"""A dead letter: the received record, and headers with its origin and the reason of its failure.

Pure values: `letter_of` writes the headers, and `letter_origin` reads them. Their names are stable: redrive
and other programs rely on them. All parts of a dead letter are safe for confluent-kafka's producer: a header
name that is not UTF-8 would end the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ehkafka.headers.taking import take_headers
from ehkafka.records import TopicPartition
from ehkafka.wording.error_stack import kind_of

if TYPE_CHECKING:
    from datetime import datetime

    from ehkafka.records import Message, Record


class Header(StrEnum):
    """The headers that make a record a letter; a redriven record has none of them."""

    ORIGIN_TOPIC = "ehkafka-origin-topic"
    ORIGIN_PARTITION = "ehkafka-origin-partition"
    ORIGIN_OFFSET = "ehkafka-origin-offset"
    ORIGIN_TIMESTAMP_MS = "ehkafka-origin-timestamp-ms"
    ERROR_TYPE = "ehkafka-error-type"
    ERROR_TEXT = "ehkafka-error-text"
    ATTEMPTS = "ehkafka-attempts"
    # Where it was raised: source lines only, see `error_stack`.
    ERROR_STACK = "ehkafka-error-stack"
    FAILED_AT_MS = "ehkafka-failed-at-ms"
    HANDLER = "ehkafka-handler"
    GROUP = "ehkafka-group"
    # How many names of the record's own headers are changed, because they are no UTF-8.
    NAMES_REPLACED = "ehkafka-header-names-replaced"


OF_A_LETTER: Final = frozenset(Header)
# How often the record was redriven. Unlike the others this header stays on the record.
REDRIVEN: Final = "ehkafka-redriven"
# An error's text may repeat the record's value: the dead letter would become too large for its topic.
ERROR_TEXT_CHARACTERS_MAX = 1_000
_OURS: Final = OF_A_LETTER | {REDRIVEN}
# In a name it replaces bytes that are no UTF-8, see `headers.taking`.
_UNREADABLE = "\ufffd"

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True, repr=False)
class Letter:
    """A record that failed permanently, for a `DeadLetter` function. Made by the app."""

    # The partition that the record was read from.
    origin: TopicPartition
    # The record's position there.
    offset: int
    # As produced; None: it had none.
    key: bytes | None
    # As produced; None: a tombstone.
    value: bytes | None
    # Its own, also for traces, then the dead letter's.
    headers: Headers

    def __repr__(self) -> str:
        # Never the value or headers: they may hold what must not be logged.
        return f"<Letter {self.origin}@{self.offset} key={self.key!r}>"

    def header(self, name: str) -> str | bytes | None:
        """Return the value of the last header of that name, `None` when there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


def shorter(letter: Letter) -> Letter | None:
    """Return the dead letter without its stack, or with a tenth of its error's text; None if it has none.

    For a dead letter that is too large for its topic: the log has stack and text as well.
    """
    if letter.header(Header.ERROR_STACK) is not None:
        return replace(letter, headers=[pair for pair in letter.headers if pair[0] != Header.ERROR_STACK])
    shown = letter.header(Header.ERROR_TEXT)
    if not shown:
        return None
    text = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
    cut = text[: len(text) // 10].encode(errors="backslashreplace")
    headers = [(name, cut if name == Header.ERROR_TEXT else value) for name, value in letter.headers]
    return replace(letter, headers=headers)


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
    stack: str = "",
) -> Letter:
    """Return the dead letter of a record. `error` is None if the record only follows its key; see `reason`.

    Without a `stack` it has no header for it.
    """
    kind, timestamp_ms = message.timestamp()
    added: dict[Header, Any] = {
        Header.ORIGIN_TOPIC: partition.topic,
        Header.ORIGIN_PARTITION: partition.partition,
        Header.ORIGIN_OFFSET: message.offset(),
        Header.ORIGIN_TIMESTAMP_MS: timestamp_ms if kind else "",
        Header.ERROR_TYPE: "" if error is None else kind_of(error),
        Header.ERROR_TEXT: reason[:ERROR_TEXT_CHARACTERS_MAX],
        Header.ATTEMPTS: attempts,
        Header.FAILED_AT_MS: int(failed_at_s * 1000),
        Header.HANDLER: handler,
        Header.GROUP: group,
    }
    if stack:
        added[Header.ERROR_STACK] = stack
    # A record that was redriven and failed again may have these headers from its first failure.
    taken = [(name, value) for name, value in take_headers(message) if name not in OF_A_LETTER]
    own: Headers = [(_sendable(name), value) for name, value in taken]
    replaced = sum(
        _UNREADABLE in name or name != sent for (name, _), (sent, _) in zip(taken, own, strict=True)
    )
    if replaced:
        added[Header.NAMES_REPLACED] = replaced
    return Letter(
        partition,
        message.offset(),
        message.key(),
        message.value(),
        # An error's text may have bytes that are not UTF-8, such as in the name of a file.
        own + [(name.value, str(value).encode(errors="backslashreplace")) for name, value in added.items()],
    )


def _sendable(name: str) -> str:
    """Return a header's name with U+FFFD for lone surrogates: confluent-kafka dies of them."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """The headers of a dead letter. A number that is missing or cannot be read is None."""

    partition: TopicPartition
    offset: int | None
    timestamp_ms: int | None
    error_type: str
    error_text: str
    attempts: int | None
    failed_at_ms: int | None
    handler: str
    group: str
    # How often the record had been redriven before.
    redriven: int
    # Empty if the dead letter has none.
    error_stack: str = ""


def letter_origin(record: Record) -> LetterOrigin | None:
    """Return the origin in a dead letter's headers; None if they do not name topic and partition."""
    headers = {name: value for name, value in record.headers() if name in _OURS}
    topic, partition = _text(headers.get(Header.ORIGIN_TOPIC)), _number(headers.get(Header.ORIGIN_PARTITION))
    if not topic or partition is None:
        return None
    return LetterOrigin(
        TopicPartition(topic, partition),
        _number(headers.get(Header.ORIGIN_OFFSET)),
        _number(headers.get(Header.ORIGIN_TIMESTAMP_MS)),
        _text(headers.get(Header.ERROR_TYPE)),
        _text(headers.get(Header.ERROR_TEXT)),
        _number(headers.get(Header.ATTEMPTS)),
        _number(headers.get(Header.FAILED_AT_MS)),
        _text(headers.get(Header.HANDLER)),
        _text(headers.get(Header.GROUP)),
        _number(headers.get(REDRIVEN)) or 0,
        _text(headers.get(Header.ERROR_STACK)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterFilter:
    """Chooses dead letters: those that fit each option that is given.

    - `key` (default `None`): the record's key as text, all of it.
    - `error` (default `None`): a part of the error's type or text, in upper or lower case.
    - `origin_topic` (default `None`): the topic that the record was read from.
    - `since` (default `None`): an aware datetime; records that failed before it are left out.
    """

    key: str | None = None
    error: str | None = None
    origin_topic: str | None = None
    since: datetime | None = None

    def takes(self, record: Record, origin: LetterOrigin) -> bool:
        """Inner: tell whether a dead letter is chosen."""
        # A key is bytes: the typed ones, UTF-8 or not.
        if self.key is not None and self.key.encode(errors="surrogateescape") != record.key():
            return False
        if self.origin_topic is not None and self.origin_topic != origin.partition.topic:
            return False
        if self.error is not None:
            shown = f"{origin.error_type}\n{origin.error_text}".casefold()
            if self.error.casefold() not in shown:
                return False
        return self.since is None or (origin.failed_at_ms or 0) >= self.since.timestamp() * 1000


def headers_back(record: Record, origin: LetterOrigin) -> Headers:
    """Return the headers of a redriven record: its own, and how often it was redriven."""
    own: Headers = [(name, value) for name, value in record.headers() if name not in _OURS]
    return [*own, (REDRIVEN, str(origin.redriven + 1).encode())]


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(value: bytes | None) -> int | None:
    text = _text(value)
    # We write no longer numbers, and Python refuses to read the longest.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None
