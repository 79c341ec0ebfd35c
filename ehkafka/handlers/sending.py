"""How calls of a handler with outputs are wrapped: what it sends is put before its record ends.

`taking` goes around the function itself, inside of all middleware; `calling` is a whole call. Built
when the app starts, called by workers on their threads.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import MESSAGE
from ehkafka.outputs.encoding import PLAIN
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_not_be_a_coroutine

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.workers.protocol import Invoke


def taking(function: Any, outlet: Any, *, is_async: bool = False) -> Any:
    """Return a function that keeps what `function` returns; without an outlet the function itself.

    In a worker process an outbox replaces the outlet.
    """
    if outlet is None:
        return function

    def call(record: Any) -> None:
        if (result := function(record)) is not None:
            _take(outlet, record, result)

    async def call_async(record: Any) -> None:
        if (result := await function(record)) is not None:
            _take(outlet, record, result)
            if outlet.outputs.is_full:
                await outlet.wait_for_room()

    return call_async if is_async else call


def _take(outlet: Any, record: Any, result: object) -> None:
    if type(result) not in PLAIN:
        must_not_be_a_coroutine(result)
    outlet.take(record, result)


def calling(
    function: Callable[[Any], object], outlet: Outlet, make_record: Callable[[Any, int], object]
) -> Invoke:
    """Return what calls `function` for a record, and puts what it has sent.

    Does what `taking` and `Outlet.begin` do, where no middleware is in between, and makes no `Call` for what
    most do: send nothing before they return, and then one value.
    """
    begun, put = outlet.begun, outlet.quick_put(partial(_take, outlet))

    def invoke(entry: Entry, number: int) -> None:
        message = entry[MESSAGE]
        place, record = id(message), make_record(message, number)
        begun[place] = entry
        try:
            if (result := function(record)) is not None:
                put(entry, place, result)
        except BaseException:
            outlet.failed(message)
            raise
        if DEFERRED or begun.pop(place, None) is None:
            outlet.returned(outlet.call_of(message))

    return invoke


def calling_async(
    function: Callable[[Any], Any], outlet: Outlet, make_record: Callable[[Any, int], Any]
) -> Any:
    """Return what does the same for a coroutine function, without holding up the loop."""
    begun, put, outputs = outlet.begun, outlet.quick_put(partial(_take, outlet)), outlet.outputs

    async def invoke(entry: Entry, number: int) -> None:
        message = entry[MESSAGE]
        place, record = id(message), make_record(message, number)
        begun[place] = entry
        try:
            if (result := await function(record)) is not None:
                if outputs.is_full:
                    await outlet.wait_for_room()
                put(entry, place, result)
        except BaseException:
            outlet.failed(message)
            raise
        if DEFERRED or begun.pop(place, None) is None:
            outlet.returned(outlet.call_of(message))

    return invoke
