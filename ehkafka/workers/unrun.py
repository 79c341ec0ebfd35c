"""Results of a handler that nobody would run: a coroutine or a generator in place of what it computes.

The one thing that every kind of worker refuses as a result: nothing of it ran, and the record would count
as handled.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType


def must_have_run(result: object) -> None:
    """Refuse what a wrapped `async def` gives. Raises `TypeError`."""
    if isinstance(result, CoroutineType | GeneratorType | AsyncGeneratorType):
        if not isinstance(result, AsyncGeneratorType):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} that nobody runs: the record was not handled; "
            "decorate the async def itself, or await it inside"
        )
