"""What of a message its handler may change, as it was received: for handlers of messages themselves.

`Record` keeps the engine's message to itself. A handler of messages (`raw=True`) is given that very one, as a
copy would cost more than all else; so what can be set is noted before the call and put back where the record
is needed again: for the next attempt, a failure policy, a dead letter. Pure; the holder's, like the lane's
head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ehkafka.records import Headers

    _Kept = tuple[tuple[str, bytes | None], ...]


class Received:
    """Reads as the message did when it was received, as far as the engine asks."""

    __slots__ = ("_headers", "_key", "_message", "_topic", "_value")

    def __init__(
        self, message: Any, topic: str, key: bytes | None, value: bytes | None, headers: _Kept | None
    ) -> None:
        self._message = message
        self._topic = topic
        self._key = key
        self._value = value
        self._headers = headers

    @classmethod
    def of(cls, message: Any) -> Received:
        """Note a message. Its headers were taken safely when it was received: its size was asked for."""
        headers = message.headers()
        return cls(
            message, message.topic(), message.key(), message.value(), tuple(headers) if headers else None
        )

    def topic(self) -> str:
        """Return the topic's name."""
        return self._topic

    def partition(self) -> int:
        """Return the partition's number."""
        return self._message.partition()  # type: ignore[no-any-return]

    def offset(self) -> int:
        """Return the position in the partition."""
        return self._message.offset()  # type: ignore[no-any-return]

    def key(self) -> bytes | None:
        """Return the key as it came."""
        return self._key

    def headers(self) -> Headers | None:
        """Return the headers as they came."""
        return list(self._headers) if self._headers else None

    def __len__(self) -> int:
        return 0 if self._value is None else len(self._value)

    def has_changed(self) -> bool:
        """Tell whether something was set in the message since."""
        message = self._message
        return (
            message.value() is not self._value
            or message.key() is not self._key
            or message.topic() is not self._topic
            or message.error() is not None
            or _kept(message.headers() or None) != (self._headers or None)
        )

    def restore(self) -> None:
        """Make the message what it was."""
        message = self._message
        message.set_topic(self._topic)
        message.set_key(self._key)
        message.set_value(self._value)
        message.set_headers(self.headers())
        message.set_error(None)


class ReceivedChunk:
    """The same of a whole chunk, in lists: an object for each record would cost three times as much."""

    __slots__ = ("_headers", "_keys", "_later", "_topic", "_values")

    def __init__(self, messages: Sequence[Any]) -> None:
        # Their headers were taken safely, too.
        kind: Any = type(messages[0])
        self._topic: str = messages[0].topic()
        self._keys = list(map(kind.key, messages))
        self._values = list(map(kind.value, messages))
        headers = list(map(kind.headers, messages))
        self._headers = list(map(_kept, headers)) if any(headers) else None
        # Those that came to the chunk after its worker had begun it, by their places.
        self._later: dict[int, Received] = {}

    def note(self, index: int, message: Any) -> None:
        """Note a message that comes later, before anything handles it."""
        self._later[index] = Received.of(message)

    def of(self, index: int, message: Any) -> Received:
        """Return what the message at a place of the chunk was."""
        if (later := self._later.get(index)) is not None:
            return later
        headers = None if self._headers is None else self._headers[index]
        return Received(message, self._topic, self._keys[index], self._values[index], headers)


def _kept(headers: Headers | None) -> _Kept | None:
    # The list is the message's own: a handler may change it in place.
    return None if headers is None else tuple(headers)
