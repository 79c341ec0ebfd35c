"""What goes around each call of a handler for a record, be it plain or awaited: `with` it, the call runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from ehkafka.recovery.unrun import must_return_nothing

if TYPE_CHECKING:
    from ehkafka.lanes.inbox import Entry

# What a record and the number of its attempt give; it hears what the call raises.
Around = Callable[["Entry", int], AbstractContextManager[object]]


def within(invoke: Callable[[Entry, int], Any], around: Around, *, is_async: bool) -> Any:
    """Return `invoke` with each call in a context of its own; what it returns is looked at there."""

    def call(entry: Entry, number: int) -> None:
        with around(entry, number):
            if (result := invoke(entry, number)) is not None:
                must_return_nothing(result)

    async def call_async(entry: Entry, number: int) -> None:
        with around(entry, number):
            if (result := await invoke(entry, number)) is not None:
                must_return_nothing(result)

    return call_async if is_async else call
