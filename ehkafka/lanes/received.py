"""Restores a message's fields that its handler may change; for handlers that get the message itself.

`Record` keeps the engine's message to itself. A handler of messages (`raw=True`) is given that very one, as a
copy would cost more than all else; so what can be set is noted before the call and put back where the record
is needed again: for the next attempt, a failure policy, a dead letter. Pure.
"""

from __future__ import annotations

from typing import Any, Self

from ehkafka.records.deferral import DEFERRED


class ReceivedMessage:
    """Makes a message what it was when it was received."""

    __slots__ = ("_headers", "_key", "_message", "_topic", "_value")

    def __init__(self, message: Any) -> None:
        """Note a message. Its headers were taken safely when it was received: its size was asked for."""
        self._message = message
        self._topic, self._key, self._value = message.topic(), message.key(), message.value()
        # The list is the message's own: a handler may change it in place.
        self._headers = tuple(message.headers() or ())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Put back what a call has changed that raised."""
        if error is None:
            self.keep_for_answer()
        else:
            self.restore()

    def has_changed(self) -> bool:
        """Tell whether something was set in the message since."""
        message = self._message
        return (
            message.value() is not self._value
            or message.key() is not self._key
            or message.topic() is not self._topic
            or message.error() is not None
            or tuple(message.headers() or ()) != self._headers
        )

    def restore(self) -> None:
        """Make the message what it was."""
        message = self._message
        message.set_topic(self._topic)
        message.set_key(self._key)
        message.set_value(self._value)
        message.set_headers(list(self._headers) or None)
        message.set_error(None)

    def keep_for_answer(self) -> None:
        """Keep what was received for a deferred record, which may fail later."""
        if DEFERRED and (token := DEFERRED.get(id(self._message))) is not None:
            token.received = self
