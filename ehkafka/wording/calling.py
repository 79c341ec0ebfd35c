"""What a function is, and whether a call fits: a user's of what we offer, ours of a user's function.

Values; called while the user's program registers and makes things, on its thread. A wrong call becomes one
sentence with the right way to write it, as a `ConfigurationError`. What cannot be known is let through: a
function whose signature is unknown may fit.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

TOPIC_CHARACTERS_MAX: Final = 256
"""Longest name of an event hub; Apache Kafka takes 249. Source: Event Hubs docs, quotas."""

Given = ParamSpec("Given")
Result = TypeVar("Result")
Made = TypeVar("Made", bound=type)

# What users of other libraries write, by what it is called here.
ALIASES: Mapping[str, str] = {
    "auto_offset_reset": "start",
    "batch_records_max": "consume_records_max",
    "batch_size": "batch_records_max",
    "bootstrap_servers": "endpoint",
    "client_id": "consumer",
    "concurrency": "workers",
    "dead_letter": "on_failure",
    "dlq": "on_failure",
    "group_id": "group",
    "key": "order_by",
    "max_retries": "retry",
    "max_workers": "workers",
    "on_error": "on_failure",
    "processes": "workers",
    "retries": "retry",
    "threads": "workers",
    "timeout": "timeout_s",
    "timeout_ms": "timeout_s",
    "topic": "to",
}
# How to make what is not made by calling its class.
_INSTEAD = {
    "Endpoint": "make one with Endpoint.kafka('host:9092'), Endpoint.connection_string(…), "
    "Endpoint.entra(…), Endpoint.from_env() or Endpoint.embedded()",
}
_NAMES_MAX = 12


def close_to(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, None where none is like it."""
    known = list(names)
    if (alias := ALIASES.get(name)) in known:
        return alias
    found = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return `; did you mean …?` for the known name that is like this one, or nothing."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {found[0]}?" if found else ""


def plainly(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a call with arguments that do not fit say in one sentence what does."""
    # It takes any options, of which these are declared.
    declared = getattr(function, "__signature__", None)

    @functools.wraps(function)
    def call(*given: Given.args, **named: Given.kwargs) -> Result:
        if declared is not None and not named.keys() <= declared.parameters.keys():
            raise _misfit(function, given, named)
        try:
            return function(*given, **named)
        except TypeError as error:
            # One of the call itself has no frame of what was called.
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise _misfit(function, given, named) from None
            raise

    return call


def made_plainly(kind: Made) -> Made:
    """Let a class say so of the arguments that it is made of."""
    kind.__init__ = plainly(kind.__init__)  # type: ignore[misc]
    return kind


def must_be_endpoint(endpoint: object) -> None:
    """Refuse what describes no broker. Raises `ConfigurationError` without its text, which may hold a key."""
    if isinstance(endpoint, type) or not hasattr(endpoint, "client_properties"):
        kind = "Endpoint, the class itself," if isinstance(endpoint, type) else type(endpoint).__name__
        raise ConfigurationError(f"endpoint={kind} is no Endpoint; {_INSTEAD['Endpoint']}.")


def is_topic_name(name: object) -> bool:
    """Say whether this could be a topic's name. Which characters it may have is the broker's to tell."""
    return (
        isinstance(name, str)
        and 0 < len(name.strip()) <= len(name) <= TOPIC_CHARACTERS_MAX
        and name.isprintable()
    )


def _misfit(
    function: Callable[..., object], given: tuple[object, ...], named: Mapping[str, object]
) -> Exception:
    what = _called(function)
    if what in _INSTEAD:
        return ConfigurationError(f"{what}(…) cannot be called: {_INSTEAD[what]}.")
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters, given = parameters[1:], given[1:]
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    options = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    for name in named:
        if name not in options:
            return _unknown(what, name, options)
    if len(given) > len(positional):
        return _too_many(what, positional, options)
    missing = [one.name for one in parameters if one.name in options and one.default is one.empty]
    missing = [name for name in missing if name not in named and name not in options[: len(given)]]
    if missing in (["function"], ["middleware"]):
        return ConfigurationError(f"{what}() has nothing to register: write {what} without parentheses.")
    if missing:
        return ConfigurationError(f"{what}(…) needs {missing[0]!r}: write {what}({missing[0]}=…).")
    return ConfigurationError(f"{what}(…) is given an argument twice: leave one of the two out.")


def _unknown(what: str, name: str, options: list[str]) -> Exception:
    if (meant := close_to(name, options)) is not None:
        return ConfigurationError(f"{what}(…) has no option {name!r}: did you mean {meant}=…?")
    if not options:
        return ConfigurationError(f"{what}() has no options: leave {name!r} out.")
    more = "…" if len(options) > _NAMES_MAX else ""
    names = ", ".join(options[:_NAMES_MAX])
    return ConfigurationError(f"{what}(…) has no option {name!r}: leave it out, or use one of {names}{more}.")


def _too_many(what: str, positional: list[inspect.Parameter], options: list[str]) -> Exception:
    named = [name for name in options if name not in {one.name for one in positional}]
    if named:
        return ConfigurationError(f"{what}(…) takes its arguments by name: write {what}({named[0]}=…).")
    if not positional:
        return ConfigurationError(f"{what}() takes no arguments: leave them out.")
    return ConfigurationError(
        f"{what}(…) is given too many arguments: it takes at most {len(positional)}, so leave the others out."
    )


def _called(function: Callable[..., object]) -> str:
    """Return what a user calls it: `Retry`, `app.handler`, `Endpoint.kafka`."""
    room, _, name = function.__qualname__.rpartition(".")
    room = {"Registration": "@app", "App": "app"}.get(room, room)
    if name == "__init__":
        return "App" if room == "app" else room
    return f"{room}.{name}" if room else name


def is_async(function: object) -> bool:
    """Tell whether calling it gives a coroutine, also for an object with an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _run_by(function)))


def is_generator(function: object) -> bool:
    """Tell whether calling it would run nothing of it before its result is iterated."""
    return is_async_generator(function) or any(map(inspect.isgeneratorfunction, _run_by(function)))


def is_async_generator(function: object) -> bool:
    """Tell whether what it yields comes by `async for`."""
    return any(map(inspect.isasyncgenfunction, _run_by(function)))


def _run_by(function: object) -> tuple[Any, Any]:
    """Return what a call may run: the function within partials, or its class's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004 - its kind is asked


def named(function: object) -> str:
    """Return a function's name for a message: a repr may show what it was made with."""
    return getattr(function, "__name__", None) or type(function).__name__


def refuse(where: str, mistakes: Mapping[str, bool]) -> None:
    """Raise a `ConfigurationError` with the first of these texts that is so."""
    for text, is_so in mistakes.items():
        if is_so:
            raise ConfigurationError(f"{where}: {text}")


def must_be_callable(function: object, what: str) -> None:
    """Refuse what cannot be called. Raises `ConfigurationError` naming `what` it was given for."""
    mistakes = {
        f"a value of type {type(function).__name__} cannot be called: give the name of a function, without "
        f"parentheses.": not callable(function),
        f"{named(function)} contains `yield`, so calling it would run none of its code: give a plain "
        f"function without `yield`.": is_generator(function),
    }
    refuse(what, mistakes)


def must_answer(function: object, given: tuple[str, ...], what: str) -> None:
    """Refuse a function whose result could be no answer, or that cannot be called so."""
    must_be_callable(function, what)
    no_loop = (
        "an async def is called here without an event loop, so that nothing of it would run: give a plain "
        "function, and open what async handlers share in on_worker_start, which runs on their loop."
    )
    refuse(what, {no_loop: is_async(function)})
    must_take(function, given, what)


def must_take(function: object, given: tuple[str, ...], what: str, *, instead: str = "") -> None:
    """Refuse a function that cannot be called with these arguments. Raises `ConfigurationError`.

    `what` names it and its use, `instead` what to do if that is not to write it with these. A wrapper's own
    signature counts, not that of what it wraps: wrappers add and take away arguments.
    """
    signature = _signature(function)
    if signature is None:
        return
    try:
        signature.bind(*given)
    except TypeError:
        count = f"{len(given)} argument{'' if len(given) == 1 else 's'}, {', '.join(given)}"
        raise ConfigurationError(
            f"{what} takes ({_parameters(signature)}), but is called with "
            f"{count if given else 'no arguments'}: {instead or f'write {_right(function, given)}'}."
        ) from None


def _right(function: object, given: tuple[str, ...]) -> str:
    name = getattr(function, "__name__", "")
    kind = "async def" if inspect.iscoroutinefunction(function) else "def"
    return f"{kind} {name if name.isidentifier() else 'function'}({', '.join(given)})"


def must_take_in_class(kind: type, method: str, given: tuple[str, ...], what: str) -> None:
    """Refuse a method that an instance could not be called with. Raises `ConfigurationError`."""
    found = inspect.getattr_static(kind, method, None)
    if isinstance(found, staticmethod):
        must_take(found.__func__, given, what)
    elif isinstance(found, classmethod):
        must_take(found.__func__, ("cls", *given), what)
    elif type(found) is FunctionType:
        must_take(found, ("self", *given), what)


def _signature(function: Any) -> inspect.Signature | None:
    """Return what a call really takes; None where that is not sure."""
    bare = function
    while isinstance(bare, functools.partial):
        bare = bare.func
    bare = getattr(bare, "__func__", bare)
    # A proxy shows the signature of what it stands for, and a signature that was set may be another's.
    if not isinstance(bare, type) and type(bare) is not FunctionType and hasattr(bare, "__wrapped__"):
        return None
    if getattr(bare, "__signature__", None) is not None:
        return None
    try:
        return inspect.signature(function, follow_wrapped=False)
    except Exception:  # a built-in one has none, and a user's type may do anything when it is asked
        return None


def _parameters(signature: inspect.Signature) -> str:
    """Return the names alone: a default's value may be a secret."""
    shown: list[str] = []
    for one in signature.parameters.values():
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(one.kind.name, "")
        text = f"{star}{one.name}" if star or one.default is one.empty else f"{one.name}=…"
        if one.kind is one.KEYWORD_ONLY and not any(each.startswith("*") for each in shown):
            shown.append("*")
        shown.append(text)
    return ", ".join(shown)
