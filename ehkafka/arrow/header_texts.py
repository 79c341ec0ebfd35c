"""Headers whose values are decoded into text, on request: AMQP producers encode each value. Pure.

An Arrow column has one type, so a value that is no text becomes one: numbers, truth values, lists and maps as
JSON, bytes that are no UTF-8 as `base64:…`.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from ehkafka.headers.one_producer import decoder_for

if TYPE_CHECKING:
    from ehkafka.headers import HeaderMode
    from ehkafka.headers.taking import Headers


def as_texts(headers: Headers, mode: HeaderMode, *, event_hubs: bool) -> Headers:
    """Return a record's headers with UTF-8 as their values; together they decide what each of them is."""
    decode = decoder_for(headers, mode, event_hubs=event_hubs)
    return [(name, _utf_8(decode(name, value))) for name, value in headers]


def _utf_8(value: Any) -> bytes | None:
    plain = _plain(value)
    if plain is None:
        return None
    text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return text.encode(errors="backslashreplace")  # a lone surrogate is no UTF-8


def _plain(value: Any) -> Any:
    """Return what JSON can say; text for all else."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"base64:{base64.b64encode(value).decode()}"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
