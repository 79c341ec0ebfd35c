"""The JSON that checkpoints hold, read without trust.

Pure. Nothing but `NoNumberError` is raised, and by `whole_number` alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

BODY_BYTES_MAX: Final = 65_536
"""No client writes so much: a larger body is not read."""
SEQUENCE_NUMBER_MAX: Final = 2**63 - 2
MISSING: Final = "\0missing"
_DIGITS = re.compile(r"\d{1,19}", re.ASCII)
_SHOWN_CHARACTERS = 40


class JsonForm(Enum):
    """Whose field names a body has."""

    NET = auto()
    PYTHON = auto()
    GO = auto()
    # The metadata of a blob, kept in a file.
    METADATA = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Body:
    """What a body says; the fields are raw."""

    form: JsonForm
    partition: str = MISSING
    sequence_number: object = None
    offset: str | None = None
    owner: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)


class NoNumberError(ValueError):
    """What stands in a number's place; the text is fit to be shown."""


def read_body(data: bytes) -> Body | None:
    """Return a body, None for one that is empty, too large or no JSON object."""
    if not data or len(data) > BODY_BYTES_MAX:
        return None
    try:
        # Files that went through an editor begin with a byte order mark.
        fields = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None
    return _recognised(fields) if isinstance(fields, dict) else None


def whole_number(value: object) -> int:
    """Return a sequence number. Raises `NoNumberError` that shows what it is instead."""
    number = value
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        number = int(value)
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= SEQUENCE_NUMBER_MAX:
        return number
    text = "missing" if value is None else repr(value)
    raise NoNumberError(text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…")


def _recognised(fields: dict[str, Any]) -> Body:
    if "SequenceNumber" in fields:
        return _body(JsonForm.NET, fields, "PartitionId", "SequenceNumber", "Offset", "Owner")
    if "sequence_number" in fields:
        return _body(JsonForm.PYTHON, fields, "partition_id", "sequence_number", "offset", "owner")
    if "checkpoint" in fields and ("partitionID" in fields or "partitionId" in fields):
        return _of_go(fields)
    if "sequencenumber" in {name.lower() for name in fields}:
        return Body(JsonForm.METADATA, fields=fields)
    return Body(JsonForm.UNKNOWN, fields=fields)


def _of_go(fields: dict[str, Any]) -> Body:
    inner = fields["checkpoint"]
    # null until the first checkpoint.
    inner = inner if isinstance(inner, dict) else {"offset": "-1", "sequenceNumber": 0}
    flat = {
        "partition": fields.get("partitionID", fields.get("partitionId")),
        "owner": fields.get("owner"),
        **inner,
    }
    return _body(JsonForm.GO, flat, "partition", "sequenceNumber", "offset", "owner")


def _body(
    form: JsonForm, fields: dict[str, Any], partition: str, number: str, offset: str, owner: str
) -> Body:
    of = fields.get(partition)
    return Body(
        form,
        MISSING if of is None else str(of),
        fields.get(number),
        _text(fields.get(offset)),
        _text(fields.get(owner)),
        fields,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
