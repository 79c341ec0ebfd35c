"""What a dead letter says of its record: where it came from, why it failed, how often it was tried.

Pure: reads what `letter` writes, and says `None` for a record that is not a letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.letter import OF_A_LETTER, REDRIVEN, Header

if TYPE_CHECKING:
    from datetime import datetime

    from ehkafka.records import Record
    from ehkafka.recovery.letters.letter import Headers


_OURS = OF_A_LETTER | {REDRIVEN}


@dataclass(frozen=True, slots=True)
class LetterOrigin:
    """The headers of a letter, read. Numbers that are missing or no numbers are None."""

    partition: TopicPartition
    offset: int | None
    timestamp_ms: int | None
    error_type: str
    error_text: str
    attempts: int | None
    failed_at_ms: int | None
    handler: str
    group: str
    # How often the record had come back before.
    redriven: int
    # Empty where the letter has none.
    error_stack: str = ""


def letter_origin(record: Record) -> LetterOrigin | None:
    """Return what a letter says; None where the record's origin is not known."""
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
    """Which letters are meant; what is None leaves nothing out."""

    key: str | None = None
    # A part of the error's type or text, in any case of letters.
    error: str | None = None
    origin_topic: str | None = None
    since: datetime | None = None

    def takes(self, record: Record, origin: LetterOrigin) -> bool:
        """Tell whether a letter is among those."""
        # A key is bytes: those that were typed, UTF-8 or not.
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
    """Return the headers with which a letter's record goes home: its own, and how often it came back."""
    own: Headers = [(name, value) for name, value in record.headers() if name not in _OURS]
    return [*own, (REDRIVEN, str(origin.redriven + 1).encode())]


def _text(value: bytes | None) -> str:
    return (value or b"").decode(errors="replace")


def _number(value: bytes | None) -> int | None:
    text = _text(value)
    # Longer ones are no numbers of ours, and Python refuses to read the longest.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None
