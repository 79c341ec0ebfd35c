"""Results that would never run: a coroutine or a generator in place of what a function computes.

Every kind of worker refuses it as a handler's result: nothing of it ran, and the record would count as
handled. The same goes for a function that was to save a dead letter, and for what a handler without `to=`
returns as if it were to be sent.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from ehkafka.outputs.send import Send


def must_return_nothing(result: object) -> None:
    """Refuse what a handler without outputs returns to have it sent. Raises `TypeError`."""
    several = result if isinstance(result, list | tuple) else (result,)
    # What else a call gives may be by the way, as that of a lambda: annotations are looked at by the start.
    if any(isinstance(one, Send) for one in several):
        raise TypeError(
            "the handler returned a Send, but it has no topic for outputs: add to=, such as "
            "@app.handler('in', to='out')"
        )
    must_have_run(result)


def must_have_run(
    result: object, who: str = "the handler", undone: str = "the record was not handled"
) -> None:
    """Refuse what a wrapped `async def` gives. Raises `TypeError`."""
    if isinstance(result, CoroutineType | GeneratorType | AsyncGeneratorType):
        if not isinstance(result, AsyncGeneratorType):
            result.close()
        raise TypeError(
            f"{who} returned a {type(result).__name__} that was never run, so {undone}: decorate the async "
            f"def itself, or await it inside your wrapper"
        )


def must_not_be_a_coroutine(result: object) -> None:
    """Refuse the same of a handler with outputs, which may return what gives several. Raises `TypeError`."""
    if not isinstance(result, GeneratorType):
        must_have_run(result)
