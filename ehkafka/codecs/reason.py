"""Why a payload does not fit, in words that show nothing of it."""

from __future__ import annotations

import re
from json import JSONDecodeError
from typing import Any

from ehkafka.wording.error_stack import kind_of, place_of
from ehkafka.wording.line import plain

CHARACTERS_MAX = 200
# Sentences of msgspec that repeat what was in the payload.
_REPEATS = re.compile(r"^(Invalid (?:enum )?value) .*?(?= - at `|$)", re.DOTALL)
# Kinds of pydantic's errors whose texts do so.
_REPEATING = {"union_tag_invalid": "the tag is none of those expected"}
_PLACE = re.compile(r"^(?P<text>.*) - at `(?P<place>.*?)`$", re.DOTALL)


class Misfit(ValueError):  # noqa: N818 - says what the payload is, not that something broke
    """A payload cannot be read, or must not be. The text shows nothing of it."""


def of_text(text: str) -> str:
    """Return a text as one short line."""
    short = plain(text.strip())
    return short if len(short) <= CHARACTERS_MAX else f"{short[:CHARACTERS_MAX]}…"


def of_field(place: str, text: str) -> str:
    """Return the field and what is wrong with it."""
    return of_text(f"{place}: {text}" if place else text)


def of_msgspec(error: BaseException) -> str:
    """Return what msgspec says of a payload, the field first."""
    found = _PLACE.match(text := _REPEATS.sub(r"\1", str(error)))
    if found is None:
        return of_text(text)
    return of_field(found["place"].removeprefix("$").removeprefix("."), found["text"])


def of_own_code(error: BaseException) -> str:
    """Return the kind of an error of a user's function and its line: its text may repeat the payload."""
    place = place_of(error)
    return of_text(f"{kind_of(error)} at {place}" if place else kind_of(error))


def of_library(error: BaseException) -> str | None:
    """Return what a library says that is known to repeat nothing, None for any other error."""
    if isinstance(error, Misfit):
        return str(error)
    library = type(error).__module__.partition(".")[0]
    if library == "msgspec":
        return of_msgspec(error)
    if library == "pydantic_core" and hasattr(error, "errors"):
        return of_pydantic(error)
    if library == "jsonschema" and hasattr(error, "json_path"):
        return of_field(
            str(error.json_path), f"it does not fulfil the schema's {getattr(error, 'validator', 'rules')}"
        )
    if library == "orjson" or isinstance(error, JSONDecodeError):
        return of_text(f"it is not JSON: {error}")
    if library == "google" and type(error).__name__ == "DecodeError":
        return "it is not a Protobuf message, or is nested too deeply"
    return (
        f"it is not UTF-8: byte {error.start} cannot be decoded"
        if isinstance(error, UnicodeDecodeError)
        else None
    )


def of_pydantic(error: Any) -> str:
    """Return what pydantic says of the first field, and how many more there are."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    first, more = found[0], len(found) - 1
    text = _REPEATING.get(first["type"], first["msg"])
    place = ".".join(map(str, first["loc"]))
    return of_field(place, text) + (f" (and {more} more)" if more else "")
