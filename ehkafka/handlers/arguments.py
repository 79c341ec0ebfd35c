"""A handler's parameters: their annotations, `value=` and `decoder=` choose what it is called with.

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
from ehkafka.records import Record
from ehkafka.records.batch import Batch
from ehkafka.records.payload_types import is_payload_type, is_structured
from ehkafka.settings.secret import quoted
from ehkafka.wording import ended
from ehkafka.wording.calling import named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.handlers.payload import Payload

# Names that mean the record also where they are there for type checkers alone.
_RECORD_NAMES = {"Record", "Message", "Any", "object", "Batch"}
# Names may stand for names without an end.
_NAMES_MAX: Final = 20
ARGUMENTS_MAX: Final = 2
"""The arguments of a handler at most: the record and its payload."""
_NOT_GIVEN: Final = inspect.Parameter.empty
_BY_POSITION = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


@dataclass(frozen=True, slots=True)
class Asked:
    """One parameter: the meaning of its annotation, or why that is unknown."""

    name: str
    default: object
    annotation: object
    unknown: str = ""

    @property
    def is_record(self) -> bool:
        """True when it is to get the record itself."""
        return not self.unknown and _means_record(self.annotation)

    @property
    def type(self) -> Any:
        """What its annotation means, without `| None`."""
        return _without_none(self.annotation)[0]


def payload_of(
    function: Any, *, batch: bool = False, names: Mapping[str, object] | None = None, **given: Any
) -> Payload | None:
    """Return what a handler's records are decoded to, `None` for a handler that takes only the record.

    `given`: its options `value`, `decoder` and `raw`. `names` are those that annotations may use in addition
    to the function's own. Raises `ConfigurationError`.
    """
    try:
        return _payload(function, _parameters(function, names or {}), batch=batch, **given)
    except ConfigurationError as error:
        where = f"{'batch ' if batch else ''}handler {named(function)!r}"
        raise type(error)(f"{where}: {error}") from error.__cause__


def _payload(
    function: object,
    parameters: list[Asked],
    *,
    value: object = None,
    decoder: object = None,
    raw: bool = False,
    batch: bool = False,
) -> Payload | None:
    # What it is called with: its first parameter, and those without a default.
    asked = [one for number, one in enumerate(parameters) if not number or one.default is _NOT_GIVEN]
    given = value is not None or decoder is not None
    if raw:
        _refuse_raw(asked, is_given=given)
        return None
    if batch:
        found = _in_batch(asked, is_class=inspect.isclass(function))
        place = None if found is _NOT_GIVEN else 0
    else:
        place = _place(asked, parameters, is_given=given)
        found = asked[place].annotation if asked and place is not None else _NOT_GIVEN
    if place is None and not given:
        return None
    _refuse_more(asked)
    kind, optional = _without_none(found if value is None else value)
    from ehkafka.handlers.payload import Payload, codec_of_payload  # noqa: PLC0415 - of few apps

    return Payload(
        codec=codec_of_payload(None if kind is _NOT_GIVEN else kind, decoder, is_chosen=value is not None),
        optional=optional or _without_none(found)[1],
        arguments=tuple(one.name for one in asked) or ("payload",),
        place=place or 0,
    )


def returned_by(function: object) -> Any:
    """Return what a function's annotation says that it returns; `Any` where that is not known."""
    annotation = getattr(_bare(function), "__annotations__", {}).get("return", Any)
    try:
        return _evaluated(annotation, function, {})
    except Exception:  # it is the user's text, evaluated; it may be there for type checkers alone
        return Any


def names_of_caller() -> dict[str, Any]:
    """Return the local names where a handler is decorated: its types may be there alone."""
    frame = sys._getframe(1)  # noqa: SLF001 - no other way to a caller's names
    while frame.f_globals.get("__name__", "").partition(".")[0] == "ehkafka" and frame.f_back is not None:
        frame = frame.f_back
    return dict(frame.f_locals)


def _place(asked: list[Asked], parameters: list[Asked], *, is_given: bool) -> int | None:
    """Return which parameter is the payload; `None` where none is."""
    for one in asked:
        if _is_batch(one.type):
            raise ConfigurationError(
                f"parameter {one.name} is a Batch, but only batch handlers receive batches: write "
                f"@app.batch_handler(…)."
            )
        if Record in get_args(one.type) and get_origin(one.type) not in (Union, UnionType):
            raise ConfigurationError(
                f"{one.name} is annotated with several records, but a call gets one: annotate {one.name} as "
                "ehkafka.Record. For several records in one call: write @app.batch_handler(…) and "
                "ehkafka.Batch."
            )
    payloads = [number for number, one in enumerate(asked) if not one.is_record]
    if not payloads and not is_given:
        _refuse_forgotten(parameters[1:])
        return None
    if not payloads:
        # Without annotation: the second one after the record, or the only one.
        bare = [number for number, one in enumerate(asked) if one.annotation is _NOT_GIVEN]
        if asked and not bare:
            raise ConfigurationError(
                "value= or decoder= defines a payload, but the handler has no parameter for it: add a "
                "parameter, such as (record, payload)."
            )
        return bare[-1] if bare else 0
    first, *others = (asked[number] for number in payloads)
    if others:
        raise ConfigurationError(
            f"parameters {first.name} and {others[0].name} both have a payload type, but a record has only "
            f"one payload: leave one out, or annotate one as ehkafka.Record."
        )
    if first.unknown and not is_given:
        raise ConfigurationError(first.unknown)
    return payloads[0]


def _in_batch(asked: list[Asked], *, is_class: bool) -> object:
    """Return the type of the values that a batch names. A class is refused by what it is registered as."""
    if not asked:
        return _NOT_GIVEN
    name, kind = asked[0].name, asked[0].type
    if "Batch[" in asked[0].unknown:
        raise ConfigurationError(asked[0].unknown)
    # A list of records is near enough to a batch of them.
    is_near = kind in (list, tuple) or any(map(_means_record, get_args(kind)))
    is_record = isinstance(kind, type) and issubclass(kind, Record)
    if not is_class and (is_record or (is_payload_type(kind) and not is_near and not _is_batch(kind))):
        raise ConfigurationError(
            f"parameter {name} receives a batch of records, which its annotation does not allow: annotate "
            f"it as ehkafka.Batch, or as ehkafka.Batch[Reading] to decode payloads into {name}.values."
        )
    values = get_args(asked[0].annotation) if _is_batch(asked[0].annotation) else ()
    return values[0] if values and not _means_record(values[0]) else _NOT_GIVEN


def _is_batch(annotation: object) -> bool:
    return (get_origin(annotation) or annotation) is Batch


def _refuse_forgotten(left_out: list[Asked]) -> None:
    """Refuse a payload that is None by default: its handler would take every record for a tombstone."""
    for one in left_out:
        if one.is_record or one.default is not None:
            continue
        if is_structured(one.type):
            raise ConfigurationError(
                f"parameter {one.name} has a default, so it would be None for every record: leave the "
                f"default out. A payload of type `… | None` is None only for a record without a value."
            )


def _refuse_more(asked: list[Asked]) -> None:
    if len(asked) > ARGUMENTS_MAX:
        raise ConfigurationError(
            f"its parameters are ({', '.join(one.name for one in asked)}), but a handler is called only "
            f"with the record and its payload: leave the other parameters out, and open the handler's "
            f"clients and connections in on_worker_start."
        )


def _refuse_raw(asked: list[Asked], *, is_given: bool) -> None:
    # What is surely no message. Other names have always been let through.
    if is_given or any(is_payload_type(one.type) for one in asked):
        asks = "value= or decoder= asks" if is_given else "a parameter's annotation asks"
        raise ConfigurationError(
            f"raw=True passes confluent's Message undecoded, but {asks} for a decoded payload: leave one of "
            f"the two out. With raw=True, decode the value in the handler."
        )


def _parameters(function: Any, names: Mapping[str, object]) -> list[Asked]:
    """Return the parameters that a handler is called with by position."""
    called, skipped = function, 0
    if inspect.isclass(function):
        method = inspect.getattr_static(function, "process", None)
        called, skipped = getattr(method, "__func__", method), int(not isinstance(method, staticmethod))
    try:
        # A wrapper that takes whatever comes hands it on.
        called = inspect.unwrap(called, stop=lambda one: not _takes_anything(one))
        found = inspect.signature(called, follow_wrapped=False).parameters.values()
    except Exception:  # a built-in one has none, and a user's type may do anything when it is asked
        return []
    return [_read(one, called, names) for one in found if one.kind in _BY_POSITION][skipped:]


def _takes_anything(function: Any) -> bool:
    kinds = {one.kind for one in inspect.signature(function, follow_wrapped=False).parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds and not kinds & _BY_POSITION


def _read(parameter: inspect.Parameter, function: object, names: Mapping[str, object]) -> Asked:
    annotation, unknown = parameter.annotation, ""
    try:
        annotation = _evaluated(annotation, function, names)
    except Exception as error:  # it is the user's text, evaluated
        if not isinstance(annotation, str) or not _names_a_record(annotation):
            unknown = (
                f"the annotation {quoted(annotation)} of {parameter.name} cannot be read: "
                f"{ended(describe(error))} Import or define the name above the handler, also at run time "
                f"(not only under TYPE_CHECKING). Or pass the type itself as value=."
            )
        annotation = _NOT_GIVEN
    return Asked(parameter.name, parameter.default, annotation, unknown)


def _evaluated(annotation: object, function: object, more: Mapping[str, object]) -> object:
    """Return what an annotation of a function means; it may use `more` names."""

    def bearer() -> None: ...

    bearer.__annotations__ = {"it": annotation}
    scope = getattr(_bare(function), "__globals__", None) or vars(sys.modules[type(function).__module__])
    names = {**more, **_enclosed(function)}
    try:
        return typing.get_type_hints(bearer, scope, names, include_extras=True)["it"]
    except NameError:
        # Linters move what is only in annotations to type checkers' eyes: ours are known anyway.
        ours = {"Record": Record, "Batch": Batch, "ehkafka": SimpleNamespace(Record=Record, Batch=Batch)}
        names = {name: one for name, one in ours.items() if name not in scope} | names
        return typing.get_type_hints(bearer, scope, names, include_extras=True)["it"]


def _names_a_record(text: str) -> bool:
    parts: Iterable[str] = text.replace("None", "").split("|")
    return all(one.strip().rpartition(".")[2] in _RECORD_NAMES for one in parts if one.strip())


def _enclosed(function: object) -> dict[str, Any]:
    """Return the names around a function that have a value by now; others may get theirs before it runs."""
    bare, found = _bare(function), {}
    if type(bare) is FunctionType:
        for name, cell in zip(bare.__code__.co_freevars, bare.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # empty
                found[name] = cell.cell_contents
    return found


def _bare(function: object) -> object:
    """Return the plain function within partials, methods and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if type(function) is not FunctionType and not inspect.ismethod(function):
        function = getattr(type(function), "__call__", function)  # noqa: B004 - it is read, not asked for
    return getattr(function, "__func__", function)


def _means_record(annotation: object) -> bool:
    annotation = _resolved(annotation)
    if get_origin(annotation) is typing.Annotated:
        annotation = _resolved(get_args(annotation)[0])
    if annotation is _NOT_GIVEN or annotation is Any or isinstance(annotation, typing.TypeVar):
        return True
    if get_origin(annotation) in (Union, UnionType):
        return all(one is NoneType or _means_record(one) for one in get_args(annotation))
    if not isinstance(annotation, type):
        return False
    module = annotation.__module__
    return (
        annotation is object
        or issubclass(annotation, Record)
        or module.startswith("confluent_kafka.")
        or (annotation.__name__ == "Message" and module in ("confluent_kafka", "cimpl"))
        or getattr(annotation, "_is_protocol", False)
    )


def _resolved(annotation: Any) -> object:
    """Return what a name stands for: that of a `NewType`, or of `type Readings = …`."""
    for _ in range(_NAMES_MAX):
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            break
    return annotation


def _without_none(annotation: Any) -> tuple[object, bool]:
    """Return a type without `| None`, and whether it had that."""
    annotation = _resolved(annotation)
    if get_origin(annotation) is typing.Annotated:
        kind, is_optional = _without_none(annotation.__origin__)
        return typing.Annotated[(kind, *annotation.__metadata__)], is_optional
    if get_origin(annotation) not in (Union, UnionType) or NoneType not in get_args(annotation):
        return annotation, False
    rest = tuple(one for one in get_args(annotation) if one is not NoneType)
    return (rest[0] if len(rest) == 1 else Union[rest]), True  # noqa: UP007 - made of values
