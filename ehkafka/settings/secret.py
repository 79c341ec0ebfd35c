"""What must not be seen: the text behind a connection string or a password, and properties that hold one.

Code that needs the text calls `reveal()` at the last moment, so a search for that word finds every place
where a secret leaves its wrapper. Holds no thread state; any thread may read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NoReturn, Self

_QUOTED_CHARACTERS_MAX = 100
_MARKS_OF_KEYS = ("sharedaccess", "accountkey=", "sig=", "password=")


class NeverPickled:
    """A value that holds a secret: a copy is the value itself, and pickling raises a `TypeError`."""

    __slots__ = ()
    _never_pickled: ClassVar[str]  # the error's text: why, and what to do instead

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        # A pickle is a file or a queue that other programs read.
        raise TypeError(self._never_pickled)


class Secret(NeverPickled):
    """Text that shows as `***` in repr, str, format and `dataclasses.asdict`, and refuses to be pickled."""

    __slots__ = ("_text",)
    _never_pickled = "a secret is not pickled: read it again in the process that needs it"

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself; for handing to a client, never for a message."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return format("***", spec)


class HiddenProperties(NeverPickled, Mapping[str, Any]):
    """Properties of which some may be secret: shows their number alone, and refuses to be pickled.

    No dict, so that `dataclasses.asdict` does not spread it out.
    """

    __slots__ = ("_properties",)
    _never_pickled = "properties with secrets are not pickled: read them again where they are needed"

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._properties = dict(properties)

    def __getitem__(self, name: str) -> Any:
        return self._properties[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)

    def __repr__(self) -> str:
        return f"<{len(self)} properties>"


def quoted(value: object) -> str:
    """Return a given value for a message: its repr, cut, or `***` where it looks like a key.

    A connection string lands in the wrong argument easily.
    """
    text = repr(value)
    if any(mark in text.lower() for mark in _MARKS_OF_KEYS):
        return "***, which looks like a connection string or a key,"
    return text if len(text) <= _QUOTED_CHARACTERS_MAX else f"{text[:_QUOTED_CHARACTERS_MAX]}…"
