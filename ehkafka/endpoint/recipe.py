"""How an endpoint was made, so that another process of the same program makes its like.

It holds what the factory was given, secrets in the clear: it is never shown, and never pickled by
accident. The code that sends it to a process keeps it from other readers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.settings.secret import NeverPickled

if TYPE_CHECKING:
    from collections.abc import Mapping


class Recipe(NeverPickled):
    """The name of a factory of `Endpoint`, and its arguments."""

    __slots__ = ("factory", "given")
    _never_pickled = "how an endpoint was made is not pickled, because a connection string may be in it"

    def __init__(self, factory: str, given: Mapping[str, object]) -> None:
        self.factory = factory
        self.given = given

    def __repr__(self) -> str:
        return f"<Endpoint.{self.factory}(…)>"
