"""One layer of settings: what a file, the environment or the command line says, each with its origin.

Pure. A layer is checked as it is read; laying them over one another is the part of `given`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.settings import PROPERTIES, Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX: Final = "EHKAFKA_"
"""What all variables begin with."""

# Properties have tables of their own.
NAMES: Final = tuple(field.name for field in fields(Settings) if field.name not in PROPERTIES)


class HandlerValue(NamedTuple):
    """What one place says for an option of a handler.

    A variable's `name` is all that follows its prefix, and `option` None: only the app's handlers tell where
    the one ends and the other begins.
    """

    name: str
    option: str | None
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says.

    `origins` names the place of each: of `group`, of `consumer.<property>`, of `endpoint.<setting>`. Those of
    `handlers` have theirs with them, and stand in the order in which they are laid over one another.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict, repr=False)
    producer: dict[str, Any] = field(default_factory=dict, repr=False)
    endpoint: dict[str, str] = field(default_factory=dict, repr=False)
    properties: dict[str, Any] = field(default_factory=dict, repr=False)
    handlers: list[HandlerValue] = field(default_factory=list, repr=False)
    origins: dict[str, str] = field(default_factory=dict)

    def table(self, name: str) -> dict[str, Any]:
        """Return the properties that are the setting of this name, one of `settings.PROPERTIES`."""
        return {"consumer": self.consumer, "producer": self.producer}[name]


def close_to(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean …?` for the known name that is like this one, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]}?" if found else ""
