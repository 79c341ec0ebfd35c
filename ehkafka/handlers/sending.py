"""How calls of a handler with outputs are wrapped: what it returns is sent before its record ends.

`taking` goes around the function itself, inside of all middleware; `calling` is a whole call. Built
when the app starts, called by workers on their threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.lanes.inbox import EPOCH, MESSAGE
from ehkafka.outputs.making import PLAIN
from ehkafka.records.deferral import DEFERRED
from ehkafka.recovery.unrun import must_not_be_a_coroutine

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.lanes.inbox import Entry
    from ehkafka.outputs.outlet import Outlet
    from ehkafka.workers.protocol import Invoke


def taking(function: Any, outlet: Any, *, is_async: bool = False, ends_the_call: bool = False) -> Any:
    """Return a function that sends what `function` returns; without an outlet the function itself.

    In a worker process an outbox replaces the outlet. `ends_the_call`: nothing that may fail comes after a
    coroutine.
    """
    if outlet is None:
        return function

    def call(record: Any) -> None:
        if (result := function(record)) is not None:
            if type(result) not in PLAIN:
                must_not_be_a_coroutine(result)
            outlet.take(record, result)

    async def call_async(record: Any) -> None:
        if (result := await function(record)) is not None:
            if type(result) not in PLAIN:
                must_not_be_a_coroutine(result)
            await outlet.take_async(record, result, ends_the_call=ends_the_call)

    return call_async if is_async else call


def calling(
    function: Callable[[Any], object], outlet: Outlet, make_record: Callable[[Any], Any], again: Invoke
) -> Invoke:
    """Return what calls `function` for a record the first time, and sends what it returns; later `again`.

    Does what `taking` and `Outlet.begin` do, where no middleware is in between, and makes no claim for what
    most calls do: send nothing before they return, and then one value.
    """
    begun, post_plain = outlet.begun, outlet.post_plain

    def invoke(entry: Entry, number: int) -> None:
        if number > 1:
            again(entry, number)
            return
        epoch, message = entry[EPOCH], entry[MESSAGE]
        place, record = id(message), make_record(message)
        begun[place] = epoch
        try:
            if (result := function(record)) is not None:
                if type(result) in PLAIN and place in begun:
                    post_plain(epoch, message, result)
                else:
                    must_not_be_a_coroutine(result)
                    outlet.post_result(message, result)
        except BaseException:
            if begun.pop(place, None) is None:
                outlet.failed(outlet.claim_of(message))
            raise
        # While some record of some handler is deferred it may be this one, which may send on.
        if DEFERRED or begun.pop(place, None) is None:
            outlet.returned(outlet.claim_of(message))

    return invoke
