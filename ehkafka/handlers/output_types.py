"""Checks the return annotations of handlers: refuses outputs without a topic, and two codecs for one topic.

Only where annotations leave no doubt: a handler without one, or with `Send` in it, is refused nothing. The
app's start, on its thread.
"""

from __future__ import annotations

import types
import typing
from collections import abc
from typing import TYPE_CHECKING, Any, get_args, get_origin

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.arguments import returned_by
from ehkafka.handlers.spec import is_batch
from ehkafka.outputs.send import Send, is_output
from ehkafka.records.payload_types import is_payload_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.handlers.spec import HandlerSpec

# Several outputs in one result, see `outputs.send.sends_of`.
_BY_ASYNC_FOR = (abc.AsyncIterator, abc.AsyncIterable, abc.AsyncGenerator)
_SEVERAL = (list, tuple, abc.Iterator, abc.Iterable, abc.Sequence, abc.Generator, *_BY_ASYNC_FOR)


def check_output_types(specs: Iterable[HandlerSpec]) -> None:
    """Refuse two handlers that send values of different codecs to one topic. Raises `ConfigurationError`."""
    # By topic: the handler, the codec of its values, and the type as its annotation has it.
    first: dict[str, tuple[str, str, str]] = {}
    for spec in specs:
        if not spec.to:
            _must_return_nothing(spec)
            continue
        annotation = returned_by(spec.called)
        codecs = {_codec(one) for one in _outputs_in(annotation)}
        if len(codecs) != 1 or (codec := codecs.pop()) is None:
            continue  # not known, or of several kinds
        kind = getattr(annotation, "__name__", None) or str(annotation)
        # What is returned as it is goes to the first topic.
        other, its, known = first.setdefault(spec.to[0], (spec.name, codec, kind))
        if its != codec:
            raise ConfigurationError(
                f"Handlers {other!r} and {spec.name!r} send different encodings to topic {spec.to[0]!r}: "
                f"{known} as {its}, and {kind} as {codec}. A reader of the topic could not decode both. Give "
                f"each handler its own topic, or let both return the same type. (Handlers annotated to "
                f"return ehkafka.Send are not compared.)"
            )


def _must_return_nothing(spec: HandlerSpec) -> None:
    for kind in _outputs_in(returned_by(spec.called)):
        # A batch's result says what became of its records.
        if kind is Send or (not is_batch(spec) and is_output(get_origin(kind) or kind)):
            raise ConfigurationError(
                f"handler {spec.name!r} is annotated to return {getattr(kind, '__qualname__', kind)}, but "
                f"it has no topic for its outputs: add to=, such as @app.handler('in', to='out'), or let "
                f"it return nothing."
            )


def _outputs_in(annotation: object, *, is_item: bool = False) -> list[Any]:
    """Return the types of the single outputs that a result of this type may be."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is types.NoneType:
        return []
    if origin is typing.Annotated:
        return _outputs_in(arguments[0], is_item=is_item)
    if origin in (typing.Union, types.UnionType):
        return [found for one in arguments for found in _outputs_in(one, is_item=is_item)]
    if origin in _SEVERAL and not is_item:
        items = arguments[:1] if origin is not tuple else [one for one in arguments if one is not ...]
        return [found for one in items for found in _outputs_in(one, is_item=True)]
    return [annotation]


def _codec(annotation: object) -> str | None:
    """Return which codec encodes values of a type, see `codecs.codec_of_value`; None: not known."""
    kind = get_origin(annotation) or annotation
    if kind in (bytes, bytearray, memoryview):
        return "bytes"
    if kind is str:
        return "text"
    is_several = kind in _SEVERAL  # bare: its contents are unknown
    return "JSON" if kind is not Send and not is_several and is_payload_type(annotation) else None
