"""A dead letter: the record as it came, and headers that say where it came from and why it failed.

Pure values. Header names are stable: `origin` (which reads them), redrive and other programs rely on them.
Everything in a letter can be handed to confluent-kafka's producer, which a name that is not UTF-8 would end
together with the process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from ehkafka.headers.taking import take_headers
from ehkafka.wording.error_stack import kind_of

if TYPE_CHECKING:
    from ehkafka.records import Message, TopicPartition


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
    # How many names of the record's own headers are not as they came, because they are no UTF-8.
    NAMES_REPLACED = "ehkafka-header-names-replaced"
    # Letters of earlier releases have these: what failed attempts had sent is never sent any more.
    OUTPUTS_SENT = "ehkafka-outputs-sent"
    OUTPUTS_ACKNOWLEDGED = "ehkafka-outputs-acknowledged"


OF_A_LETTER: Final = frozenset(Header)
# How often the record has come back from the dead letters. Unlike the others it stays on the record.
REDRIVEN: Final = "ehkafka-redriven"
# An error's text may repeat the record: a letter must not outgrow its topic for it.
ERROR_TEXT_CHARACTERS_MAX = 1_000
# What stands in a name for bytes that are no UTF-8, see `headers.taking`.
_UNREADABLE = "\ufffd"

Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True, repr=False)
class Letter:
    """A record that failed for good. `headers` are its own, trace context included, then the letter's."""

    origin: TopicPartition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    def __repr__(self) -> str:
        # Never the value or headers: they may hold what must not be logged.
        return f"<Letter {self.origin}@{self.offset} key={self.key!r}>"

    def header(self, name: str) -> str | bytes | None:
        """Return the value of the last header of that name, `None` when there is none."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


def shorter(letter: Letter) -> Letter | None:
    """Return the letter without its stack, then with a tenth of its error's text; None where nothing is left.

    For a letter that is too large for its topic: what these say is in the log as well.
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
    """Return the letter for a record. `error` is None for one that only follows its key; see `reason`.

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
    # A record that was redriven and failed again may have these from its first time.
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
        # An error's text may hold what is not UTF-8, such as the name of a file.
        own + [(name.value, str(value).encode(errors="backslashreplace")) for name, value in added.items()],
    )


def _sendable(name: str) -> str:
    """Return a header's name with U+FFFD for lone surrogates: confluent-kafka dies of them."""
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
