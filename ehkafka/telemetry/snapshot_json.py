"""A snapshot that another process took and said as plain values, made a snapshot again. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cache, partial
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

from ehkafka.checkpoints.checkpoint import MirrorState
from ehkafka.records import TopicPartition
from ehkafka.telemetry.snapshot import Snapshot

# Of a type: what makes its value out of JSON's; None where JSON's is the value.
Maker = Callable[[Any], Any] | None
# `telemetry.snapshot` loads it for type checkers alone.
NAMES: Final = {"MirrorState": MirrorState}


def snapshot_from(plain: Mapping[str, object]) -> Snapshot:
    """Return what `Snapshot.as_dict` said; fields of a newer version are left out."""
    made: Snapshot = _made(Snapshot, plain)
    return made


def _made(kind: Any, plain: Mapping[str, Any]) -> Any:
    makers = _makers(kind)
    values = ((name, value, makers[name]) for name, value in plain.items() if name in makers)
    return kind(**{name: value if maker is None else maker(value) for name, value, maker in values})


@cache
def _makers(kind: object) -> dict[str, Maker]:
    return {name: _maker(hint) for name, hint in get_type_hints(kind, localns=NAMES).items()}


def _maker(hint: object) -> Maker:
    inner = get_args(hint)
    if is_dataclass(hint) or hint is TopicPartition:
        return partial(_made, hint)
    if NoneType in inner:
        of_value = _maker(inner[0])
        return of_value and (lambda plain: None if plain is None else of_value(plain))
    if get_origin(hint) is tuple:
        of_one = _maker(inner[0])
        return (lambda plain: tuple(map(of_one, plain))) if of_one else tuple
    return None
