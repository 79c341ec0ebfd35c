"""Why a payload does not fit, in words that show nothing of it."""

from __future__ import annotations

import re

from ehkafka.wording.line import plain

CHARACTERS_MAX = 200
# Sentences of msgspec that repeat what was in the payload.
_REPEATS = re.compile(r"^(Invalid (?:enum )?value) .*?(?= - at `|$)", re.DOTALL)
_PLACE = re.compile(r"^(?P<text>.*) - at `(?P<place>.*?)`$", re.DOTALL)


def of_text(text: str) -> str:
    """Return a text as one short line."""
    short = plain(text.strip())
    return short if len(short) <= CHARACTERS_MAX else f"{short[:CHARACTERS_MAX]}…"


def of_field(place: str, text: str) -> str:
    """Return the field and what is wrong with it."""
    return of_text(f"{place}: {text}" if place else text)


def of_msgspec(error: Exception) -> str:
    """Return what msgspec says of a payload, the field first."""
    found = _PLACE.match(text := _REPEATS.sub(r"\1", str(error)))
    if found is None:
        return of_text(text)
    return of_field(found["place"].removeprefix("$").removeprefix("."), found["text"])


def of_kind(error: BaseException) -> str:
    """Return the kind of an error alone, of whose text nobody knows what it repeats."""
    return type(error).__qualname__
