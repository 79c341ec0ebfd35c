"""Whose a type is: what holds a model, a type or a rule of pydantic's is pydantic's, all else is msgspec's.

Pure but for the annotations of the user's classes, which are evaluated. Read when a handler is registered,
and once for each type that is sent.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, get_args, get_origin, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from collections.abc import Iterable

# pydantic's, and the rules that it writes in `Annotated`.
_PACKAGES = ("pydantic", "pydantic_core", "annotated_types")


def holds_pydantics(annotation: object) -> bool:
    """Tell whether pydantic is to decode it: the type, or anything inside of it, is pydantic's own."""
    return "pydantic" in sys.modules and _holds(annotation, set())


def is_pydantics(one: object) -> bool:
    """Tell whether a type, or a note in `Annotated`, is a model or comes from pydantic itself."""
    if hasattr(one, "__pydantic_validator__"):
        return True
    kind = one if isinstance(one, type) else type(one)
    return kind.__module__.partition(".")[0] in _PACKAGES


def _holds(annotation: object, seen: set[int]) -> bool:
    if id(annotation) in seen:  # a type may hold itself
        return False
    seen.add(id(annotation))
    inside = (*get_args(annotation), *_types_of_fields(get_origin(annotation) or annotation))
    return is_pydantics(annotation) or any(_holds(one, seen) for one in inside)


def _types_of_fields(kind: object) -> Iterable[object]:
    has_fields = is_typeddict(kind) or dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")
    if not isinstance(kind, type) or not has_fields:
        return ()
    try:
        return get_type_hints(kind, include_extras=True).values()
    except Exception:  # names that are nowhere: the decoder reports them
        return ()
