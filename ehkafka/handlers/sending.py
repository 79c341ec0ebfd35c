"""How calls of a handler with outputs are wrapped: what it returns is sent before its record ends.

`taking` goes around the function itself, inside of all middleware; the others around the whole call. Built
when the app starts, called by workers on their threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ehkafka.outputs.making import PLAIN
from ehkafka.records.deferral import engines_own
from ehkafka.recovery.unrun import must_not_be_a_coroutine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ehkafka.lanes.assignment import Assignment
    from ehkafka.lanes.lane import Lane
    from ehkafka.outputs.outlet import Outlet


class Taker(Protocol):
    """Takes what calls return: the outlet, or in a worker process what stands for it."""

    def take(self, record: Any, result: object) -> None:
        """Send what a handler returned for a record, or a batch. Raises what fails the attempt."""


def taking(function: Callable[[Any], object], outlet: Taker | None) -> Callable[[Any], object]:
    """Return a function that sends what `function` returns; without an outlet the function itself."""
    if outlet is None:
        return function

    def call(record: Any) -> None:
        if (result := function(record)) is not None:
            if type(result) not in PLAIN:
                must_not_be_a_coroutine(result)
            outlet.take(record, result)

    return call


def taking_async(function: Any, outlet: Outlet | None) -> Any:
    """Return the same for a coroutine function."""
    if outlet is None:
        return function

    async def call(record: Any) -> None:
        if (result := await function(record)) is not None:
            if type(result) not in PLAIN:
                must_not_be_a_coroutine(result)
            await outlet.take_async(record, result)

    return call


def sending(invoke: Callable[[Lane], object], outlet: Outlet) -> Callable[[Lane], object]:
    """Return `invoke` for a lane's head, during which that may send."""

    def call(lane: Lane) -> None:
        assert lane.head is not None
        claim = outlet.begin(lane.assignment, lane.head, lane.attempts + 1)
        try:
            invoke(lane)
        except BaseException:
            outlet.failed(claim)
            raise
        outlet.returned(claim)

    return call


def sending_async(
    invoke: Callable[[Lane], Awaitable[object]], outlet: Outlet
) -> Callable[[Lane], Awaitable[object]]:
    """Return the same for coroutines."""

    async def call(lane: Lane) -> object:
        assert lane.head is not None
        claim = outlet.begin(lane.assignment, lane.head, lane.attempts + 1)
        try:
            result = await invoke(lane)
        except BaseException:
            outlet.failed(claim)
            raise
        outlet.returned(claim)
        return result

    return call


def sending_in_chunk(
    handler: Callable[[Any], object], outlet: Outlet, assignment: Assignment
) -> Callable[[Any], object]:
    """Return what is called for each record of a chunk, during which that may send."""
    begin, returned = outlet.begin, outlet.returned

    def call(record: Any) -> object:
        claim = begin(assignment, engines_own(record), 1)
        try:
            result = handler(record)
        except BaseException:
            outlet.failed(claim)
            raise
        returned(claim)
        return result

    return call


def taking_in_chunk(
    function: Callable[[Any], object], outlet: Outlet, assignment: Assignment
) -> Callable[[Any], object]:
    """Return what both do together, where no middleware is in between: one call less for each record."""
    begin, returned, take_for = outlet.begin, outlet.returned, outlet.take_for

    def call(record: Any) -> None:
        message = engines_own(record)
        claim = begin(assignment, message, 1)
        try:
            if (result := function(record)) is not None:
                if type(result) not in PLAIN:
                    must_not_be_a_coroutine(result)
                take_for(claim, message, result)
        except BaseException:
            outlet.failed(claim)
            raise
        returned(claim)

    return call
