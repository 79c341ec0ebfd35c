"""The headers of a message, also where a producer's bytes would make confluent-kafka fail.

A header's name must be UTF-8, but no broker checks it. For a name that is not, `Message.headers()` of
confluent-kafka (2.16) raises `SystemError` once; from then on it returns a list whose pair has no name, not
even None: code that touches it ends the process. So everything here takes headers from this function, on the
poll thread and on workers, and the message gets the corrected headers, for those who ask it themselves.
"""

from __future__ import annotations

from operator import length_hint
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

Headers = list[tuple[str, bytes | None]]

# What `repr` says where C left out an object; a name's would begin with a quotation mark.
_NO_NAME = "(<NULL>"


class Headed(Protocol):
    """The methods of a `Message` or a `Record` that this room calls."""

    def key(self) -> bytes | None:
        """Return the key, `None` when there is none."""

    def headers(self) -> Headers | None:
        """Return the headers in order; `None` or an empty list without any."""

    def __len__(self) -> int: ...


def take_headers(message: Headed) -> Headers:
    """Return the headers in order, an empty list when there are none.

    A name that is not UTF-8 has U+FFFD for what cannot be read. Where a message has several such names, the
    error does not tell them, and each is U+FFFD alone.
    """
    try:
        return message.headers() or []
    except SystemError as error:
        return _with_readable_names(message, error)


def have_headers(messages: Sequence[Headed]) -> bool:
    """Tell whether any of these messages, all of one type, has a header; no name is touched."""
    kind: Any = type(messages[0])
    left = iter(messages)
    try:
        return any(map(kind.headers, left))
    except SystemError as error:
        # Raised once for each message: the next call would return the pair without a name.
        _with_readable_names(messages[len(messages) - length_hint(left) - 1], error)
        return True


def _with_readable_names(message: Any, error: SystemError) -> Headers:
    name = _unreadable_name(error)
    headers = [(name, pair[1]) if repr(pair).startswith(_NO_NAME) else pair for pair in message.headers()]
    message.set_headers(headers)
    return headers


def _unreadable_name(error: SystemError) -> str:
    cause = error.__cause__
    return cause.object.decode(errors="replace") if isinstance(cause, UnicodeDecodeError) else "\ufffd"
