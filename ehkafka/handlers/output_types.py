"""What handlers say they return: outputs without a topic, and two codecs for one, are refused at the start.

By their return annotations alone, and only where these leave no doubt: a handler without one, or with `Send`
in it, is refused nothing. The app's start, on its thread.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

from ehkafka.codecs.codec import is_payload_type
from ehkafka.errors import ConfigurationError
from ehkafka.handlers.arguments import returned_by
from ehkafka.handlers.spec import is_batch
from ehkafka.outputs.send import Send, is_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ehkafka.handlers.spec import HandlerSpec

# Several outputs in one result, see `outputs.send.sends_of`.
_SEVERAL = (
    list,
    tuple,
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Sequence,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
)


class _Sent(NamedTuple):
    """What one handler's annotation says: the codec of its values, and the type as it was written."""

    handler: str
    codec: str
    kind: str


def check_output_types(specs: Iterable[HandlerSpec]) -> None:
    """Refuse two handlers that send values of different codecs to one topic. Raises `ConfigurationError`."""
    first: dict[str, _Sent] = {}
    for spec in specs:
        if not spec.to:
            _must_return_nothing(spec)
        if not spec.to or (found := _sent_by(spec)) is None:
            continue
        # What is returned as it is goes to the first topic.
        known = first.setdefault(spec.to[0], found)
        if known.codec != found.codec:
            raise ConfigurationError(
                f"To topic {spec.to[0]!r} handler {known.handler!r} sends {known.kind} as {known.codec}, and "
                f"handler {found.handler!r} sends {found.kind} as {found.codec}: whoever reads the topic "
                "could not decode both. Give each a topic of its own, or let both return the same kind; a "
                "handler that is annotated to return ehkafka.Send is not compared."
            )


def _must_return_nothing(spec: HandlerSpec) -> None:
    for kind in _outputs_in(_returned(spec)):
        # A batch's result says what became of its records.
        if kind is Send or (not is_batch(spec) and is_output(get_origin(kind) or kind)):
            raise ConfigurationError(
                f"handler {spec.name!r} is annotated to return {getattr(kind, '__qualname__', kind)}, but "
                "nothing says where its outputs go: give it to=, the topic, such as "
                "@app.handler('in', to='out'), or let it return nothing."
            )


def _sent_by(spec: HandlerSpec) -> _Sent | None:
    """Return what a handler surely sends; None where that is not known, or is of several kinds."""
    annotation = _returned(spec)
    codecs = {_codec(one) for one in _outputs_in(annotation)}
    if len(codecs) != 1 or (codec := codecs.pop()) is None:
        return None
    return _Sent(spec.name, codec, getattr(annotation, "__name__", None) or str(annotation))


def _returned(spec: HandlerSpec) -> Any:
    return returned_by(spec.function.process if spec.is_class else spec.function)


def _outputs_in(annotation: Any, *, is_item: bool = False) -> list[Any]:
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


def _codec(annotation: Any) -> str | None:
    """Return which codec encodes values of a type, see `codecs.codec_of_value`; None: not known."""
    kind = get_origin(annotation) or annotation
    if kind in (bytes, bytearray, memoryview):
        return "bytes"
    if kind is str:
        return "text"
    is_several = kind in _SEVERAL  # bare: nobody knows what is in it
    return "JSON" if kind is not Send and not is_several and is_payload_type(annotation) else None
