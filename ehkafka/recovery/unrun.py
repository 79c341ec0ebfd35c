"""Results that nobody would run: a coroutine or a generator in place of what a function computes.

Every kind of worker refuses it as a handler's result: nothing of it ran, and the record would count as
handled. The same goes for a function that was to save a dead letter, and for what a handler without `to=`
returns as if it were to be sent.
"""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType, GeneratorType

from ehkafka.outputs.send import Send, is_output


def must_return_nothing(result: object) -> None:
    """Refuse what a handler without outputs returns as if it had some. Raises `TypeError`."""
    several = result if isinstance(result, list | tuple) else ()
    found = next((one for one in several if isinstance(one, Send)), result)
    if is_output(type(found)):
        raise TypeError(
            f"the handler returned a {type(found).__name__}, but nothing says where its outputs go: give it "
            "to=, the topic, such as @app.handler('in', to='out'), or let it return nothing"
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
            f"{who} returned a {type(result).__name__} that nobody runs: {undone}; "
            "decorate the async def itself, or await it inside"
        )


def must_not_be_a_coroutine(result: object) -> None:
    """Refuse the same of a handler with outputs, which may return what gives several. Raises `TypeError`."""
    if not isinstance(result, GeneratorType):
        must_have_run(result)
