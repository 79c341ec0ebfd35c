"""What a handler asks for: its parameters by their annotations, and `value=` and `decoder=`.

Read once, when a handler is registered, on the program's own thread; a mistake is a `ConfigurationError`
there. A parameter without annotation is the record, and so is one of `Record`, confluent's `Message`, `Any`,
`object` or a Protocol. Another annotation is the type of the payload, whatever the parameter is called.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import typing
from dataclasses import dataclass
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, Final, Union, get_args, get_origin

from ehkafka.errors import ConfigurationError, describe
from ehkafka.handlers.spec import named
from ehkafka.records import Record
from ehkafka.settings.secret import quoted
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.codecs import Codec
    from ehkafka.handlers.payload import Payload

# Names that mean the record also where they are there for type checkers alone.
_RECORD_NAMES = {"Record", "Message", "Any", "object", "Batch"}
# Objects may answer every attribute with another of their kind.
_WRAPPERS_MAX: Final = 20
ARGUMENTS_MAX: Final = 2
"""What a handler is called with at most: the record and its payload."""
_NOT_GIVEN: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Asked:
    """One parameter: what its annotation says, or that nobody can know."""

    name: str
    annotation: Any
    unknown: str = ""
    default: Any = _NOT_GIVEN

    @property
    def is_record(self) -> bool:
        """True when it is to get the record itself."""
        return not self.unknown and _means_record(self.annotation)


def payload_of(
    function: Any,
    *,
    value: Any = None,
    decoder: Any = None,
    raw: bool = False,
    batch: bool = False,
    names: Mapping[str, Any] | None = None,
) -> Payload | None:
    """Return what a handler's records are decoded to, `None` for a handler that takes the record alone.

    `names` are those that annotations may use beside the function's own. Raises `ConfigurationError`.
    """
    where = f"{'batch ' if batch else ''}handler {named(function)!r}"
    if value is not None and decoder is not None and not _is_of_registry(decoder):
        raise ConfigurationError(
            f"{where}: value= and decoder= both say how a payload is decoded: leave one of them out."
        )
    asked, left_out = _asked(function, names or {})
    given = value is not None or decoder is not None
    if raw:
        _refuse_raw(asked, where, is_given=given)
        return None
    if not batch:
        _refuse_batch(asked, where)
        if not given and all(one.is_record for one in asked):
            _refuse_forgotten(left_out, where)
    is_class = inspect.isclass(function)
    place = _of_batch(asked, where, is_class=is_class) if batch else _place(asked, where, is_given=given)
    if place is None and not given:
        return None
    if len(asked) > ARGUMENTS_MAX:
        raise ConfigurationError(
            f"{where} takes ({', '.join(one.name for one in asked)}), but is called with the record and its "
            "payload at most: leave the others out, and open what else it needs in on_worker_start."
        )
    found = _annotation(asked, place, is_batch=batch)
    kind, optional = _without_none(found if value is None else value)
    if value is not None:
        optional = optional or _without_none(found)[1]
    from ehkafka.handlers.payload import Payload  # noqa: PLC0415 - apps with records alone need none of it

    try:
        codec = _codec(kind, decoder, is_named=found is not _NOT_GIVEN or value is not None)
    except ConfigurationError as error:
        raise type(error)(f"{where}: {error}") from error
    arguments = tuple(one.name for one in asked) or ("payload",)
    return Payload(codec=codec, optional=optional, arguments=arguments, place=place or 0)


def returned_by(function: Any) -> Any:
    """Return what a function's annotation says that it returns; `Any` where that is not known."""
    annotation = getattr(_bare(function), "__annotations__", {}).get("return", Any)
    try:
        return _evaluated(annotation, _globals(function), _enclosed(function))
    except Exception:  # it is the user's text, evaluated; it may be there for type checkers alone
        return Any


def names_of_caller() -> dict[str, Any]:
    """Return the local names where a handler is decorated: its types may be there alone."""
    frame = sys._getframe(1)  # noqa: SLF001 - no other way to a caller's names
    while frame.f_globals.get("__name__", "").partition(".")[0] == "ehkafka" and frame.f_back is not None:
        frame = frame.f_back
    return dict(frame.f_locals)


def _place(asked: list[Asked], where: str, *, is_given: bool) -> int | None:
    """Return which parameter is the payload."""
    payloads = [number for number, one in enumerate(asked) if not one.is_record]
    if is_given and not payloads:
        # Without annotation: the second one beside the record, or the only one.
        bare = [number for number, one in enumerate(asked) if one.annotation is _NOT_GIVEN]
        if bare or not asked:
            return bare[-1] if bare else 0
        raise ConfigurationError(
            f"{where}: value= or decoder= says what a payload is, but no parameter takes it: add one, such "
            "as (record, payload)."
        )
    if len(payloads) > 1:
        first, second = (asked[number].name for number in payloads[:2])
        raise ConfigurationError(
            f"{where}: {first} and {second} both have the type of a payload, and a record has one: leave one "
            "of them out, or annotate it as ehkafka.Record."
        )
    if payloads and (unknown := asked[payloads[0]].unknown) and not is_given:
        raise ConfigurationError(f"{where}: {unknown}")
    return payloads[0] if payloads else None


def _of_batch(asked: list[Asked], where: str, *, is_class: bool) -> int | None:
    """Return 0 where a batch names the type of its values. A class is refused by what it is registered as."""
    if not asked:
        return None
    if asked[0].unknown and "Batch[" in asked[0].unknown:
        raise ConfigurationError(f"{where}: {asked[0].unknown}")
    if not is_class and _is_surely_no_batch(asked[0]):
        name = asked[0].name
        raise ConfigurationError(
            f"{where}: {name} is given a batch of records and not what its annotation says: annotate it as "
            f"ehkafka.Batch, or as ehkafka.Batch[Reading] for the payloads in {name}.values."
        )
    return 0 if _value_of_batch(asked[0].annotation) is not _NOT_GIVEN else None


def _is_surely_no_batch(asked: Asked) -> bool:
    annotation = _without_none(asked.annotation)[0]
    if asked.unknown or annotation in (_NOT_GIVEN, list, tuple) or _is_batch(annotation):
        return False
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return True
    from ehkafka.codecs.codec import is_payload_type  # noqa: PLC0415 - as above

    # A list of records is near enough to a batch of them.
    return is_payload_type(annotation) and not any(map(_means_record, get_args(annotation)))


def _is_batch(annotation: Any) -> bool:
    room = sys.modules.get("ehkafka.records.batch")  # who names one has loaded it
    return room is not None and (get_origin(annotation) or annotation) is room.Batch


def _refuse_batch(asked: list[Asked], where: str) -> None:
    if (one := next((one for one in asked if _is_batch(_without_none(one.annotation)[0])), None)) is not None:
        raise ConfigurationError(
            f"{where}: {one.name} is a Batch, which batch handlers alone get: write @app.batch_handler(…)."
        )


def _refuse_forgotten(left_out: list[Asked], where: str) -> None:
    """Refuse a payload that is None by default: its handler would take every record for a tombstone."""
    for one in left_out:
        kind, _ = _without_none(one.annotation)
        if one.unknown or one.is_record or one.default is not None:
            continue
        from ehkafka.codecs.codec import is_structured  # noqa: PLC0415 - as above

        if is_structured(kind):
            raise ConfigurationError(
                f"{where}: {one.name} has a default, and would be None for every record: leave it out. "
                "A payload whose type is `… | None` is None for a record without a value alone."
            )


def _annotation(asked: list[Asked], place: int | None, *, is_batch: bool) -> Any:
    if place is None or place >= len(asked) or asked[place].unknown:
        return _NOT_GIVEN
    found = asked[place].annotation
    return _value_of_batch(found) if is_batch else found


def _value_of_batch(annotation: Any) -> Any:
    from ehkafka.records.batch import Batch  # noqa: PLC0415 - for batch handlers alone

    if get_origin(annotation) is not Batch:
        return _NOT_GIVEN
    (value,) = get_args(annotation)
    return _NOT_GIVEN if _means_record(value) else value


def _codec(kind: Any, decoder: Any, *, is_named: bool) -> Codec:
    from ehkafka.codecs.codec import codec_for, is_payload_type  # noqa: PLC0415 - as above

    if decoder is None:
        return codec_for(kind)
    from ehkafka.codecs.custom import ConvertingCodec, codec_of  # noqa: PLC0415 - as above

    codec = codec_of(decoder)
    if not (is_named and getattr(codec, "gives_plain", False) and is_payload_type(kind)):
        return codec
    target = codec_for(kind)
    return ConvertingCodec(codec, target) if hasattr(target, "convert") else codec


def _is_of_registry(decoder: Any) -> bool:
    from ehkafka.codecs.custom import codec_of  # noqa: PLC0415 - as above

    return getattr(codec_of(decoder), "gives_plain", False)


def _refuse_raw(asked: list[Asked], where: str, *, is_given: bool) -> None:
    """Refuse a payload beside raw=True, which hands over the client's message and nothing else."""
    from ehkafka.codecs.codec import is_payload_type  # noqa: PLC0415 - as above

    # What is surely no message. Other names have always been let through.
    if is_given or any(is_payload_type(_without_none(one.annotation)[0]) for one in asked if not one.unknown):
        raise ConfigurationError(
            f"{where}: raw=True hands over confluent's Message and decodes nothing: leave raw out, or decode "
            "the message's value in the handler."
        )


def _asked(function: Any, names: Mapping[str, Any]) -> tuple[list[Asked], list[Asked]]:
    """Return what a handler is called with, its first parameter and those without default; and the others."""
    called, skipped = _called(function)
    try:
        signature = inspect.signature(called, follow_wrapped=False)
        # A wrapper that takes whatever comes hands it on.
        for _ in range(_WRAPPERS_MAX):
            if not _takes_anything(signature) or not hasattr(called, "__wrapped__"):
                break
            called = called.__wrapped__
            signature = inspect.signature(called, follow_wrapped=False)
    except Exception:  # a built-in one has none, and a user's type may do anything when it is asked
        return [], []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [one for one in signature.parameters.values() if one.kind in kinds][skipped:]
    taken = [one for number, one in enumerate(parameters) if not number or one.default is one.empty]
    scope = {**names, **_enclosed(called)}
    left_out = [one for one in parameters if one not in taken]
    return [_read(one, called, scope) for one in taken], [_read(one, called, scope) for one in left_out]


def _called(function: Any) -> tuple[Any, int]:
    """Return what is called in the end, and how many of its parameters come before the handler's own."""
    if not inspect.isclass(function):
        return function, 0
    method = inspect.getattr_static(function, "process", None)
    if isinstance(method, staticmethod):
        return method.__func__, 0
    if isinstance(method, classmethod):
        return method.__func__, 1
    return method, 1


def _takes_anything(signature: inspect.Signature) -> bool:
    return any(one.kind is one.VAR_POSITIONAL for one in signature.parameters.values()) and not any(
        one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in signature.parameters.values()
    )


def _read(parameter: inspect.Parameter, function: Any, names: Mapping[str, Any]) -> Asked:
    annotation = parameter.annotation
    if annotation is parameter.empty:
        return Asked(parameter.name, annotation, default=parameter.default)

    try:
        found = _evaluated(annotation, _globals(function), dict(names))
    except Exception as error:  # it is the user's text, evaluated
        if isinstance(annotation, str) and _names_a_record(annotation):
            return Asked(parameter.name, parameter.empty, default=parameter.default)
        return Asked(
            parameter.name,
            annotation,
            f"the annotation {quoted(annotation)} of {parameter.name} cannot be read: "
            f"{ended(describe(error))} Import the name where the program runs, not for type checkers "
            "alone, and define it above the handler; or give the type itself, by value=.",
        )
    return Asked(parameter.name, found, default=parameter.default)


def _evaluated(annotation: Any, scope: dict[str, Any], names: dict[str, Any]) -> Any:
    def bearer() -> None: ...

    bearer.__annotations__ = {"it": annotation}
    try:
        return typing.get_type_hints(bearer, scope, names, include_extras=True)["it"]
    except NameError:
        # Linters move what is only in annotations to type checkers' eyes: ours are known anyway.
        ours = {name: one for name, one in _ours().items() if name not in scope and name not in names}
        return typing.get_type_hints(bearer, scope, {**ours, **names}, include_extras=True)["it"]


def _ours() -> dict[str, Any]:
    from ehkafka.records.batch import Batch  # noqa: PLC0415 - for batch handlers alone

    names = {"Record": Record, "Batch": Batch}
    return {**names, "ehkafka": SimpleNamespace(**names)}


def _names_a_record(text: str) -> bool:
    parts: Iterable[str] = text.replace("None", "").split("|")
    return all(one.strip().rpartition(".")[2] in _RECORD_NAMES for one in parts if one.strip())


def _globals(function: Any) -> dict[str, Any]:
    bare = _bare(function)
    return getattr(bare, "__globals__", None) or vars(sys.modules[type(function).__module__])


def _enclosed(function: Any) -> dict[str, Any]:
    """Return the names around a function that have a value by now; others may get theirs before it runs."""
    bare, found = _bare(function), {}
    if type(bare) is FunctionType:
        for name, cell in zip(bare.__code__.co_freevars, bare.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # empty
                found[name] = cell.cell_contents
    return found


def _bare(function: Any) -> Any:
    """Return the plain function within partials, methods and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if type(function) is not FunctionType and not inspect.ismethod(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - it is read, not asked for
    return getattr(function, "__func__", function)


def _means_record(annotation: Any) -> bool:
    annotation = _resolved(annotation)
    if get_origin(annotation) is typing.Annotated:
        annotation = _resolved(get_args(annotation)[0])
    if annotation is _NOT_GIVEN or annotation is Any or isinstance(annotation, typing.TypeVar):
        return True
    if get_origin(annotation) in (Union, UnionType):
        return all(one is NoneType or _means_record(one) for one in get_args(annotation))
    if not isinstance(annotation, type):
        return False
    is_message = annotation.__name__ == "Message" and annotation.__module__ in ("confluent_kafka", "cimpl")
    is_message = is_message or annotation.__module__.startswith("confluent_kafka.")
    return (
        annotation is object
        or is_message
        or issubclass(annotation, Record)
        or getattr(annotation, "_is_protocol", False)
    )


def _resolved(annotation: Any) -> Any:
    """Return what a name stands for: that of a `NewType`, or of `type Readings = …`."""
    for _ in range(_WRAPPERS_MAX):
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    return annotation


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """Return a type without `| None`, and whether it had that."""
    annotation = _resolved(annotation)
    if get_origin(annotation) is typing.Annotated:
        kind, is_optional = _without_none(annotation.__origin__)
        return typing.Annotated[(kind, *annotation.__metadata__)], is_optional
    if get_origin(annotation) not in (Union, UnionType) or NoneType not in get_args(annotation):
        return annotation, False
    rest = tuple(one for one in get_args(annotation) if one is not NoneType)
    return (rest[0] if len(rest) == 1 else Union[rest]), True  # noqa: UP007 - made of values
