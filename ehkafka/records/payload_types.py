"""Which annotations mean a payload. Loads no codec. Pure."""

from __future__ import annotations

import dataclasses
from typing import get_origin, is_typeddict


def is_payload_type(annotation: object) -> bool:
    """Tell whether an annotation surely means a payload."""
    origin = get_origin(annotation) or annotation
    return origin in (bytes, str, dict, list, tuple, int, float, bool) or is_structured(annotation)


def is_structured(annotation: object) -> bool:
    """Tell whether an annotation is a type with fields."""
    origin = get_origin(annotation) or annotation
    return (
        dataclasses.is_dataclass(origin)
        or is_typeddict(origin)
        or hasattr(origin, "__struct_fields__")
        or hasattr(origin, "__pydantic_validator__")
    )
