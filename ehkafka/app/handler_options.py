"""Options of handlers that others than the code may decide: how many, how fast, how long, and from where.

What a handler does with its records stays the code's: their order, what becomes of one that fails, what the
function is called with. Pure; loaded when options are laid over a handler's, or are explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.errors import ConfigurationError
from ehkafka.handlers.batch import BatchSpec
from ehkafka.handlers.spec import is_batch
from ehkafka.settings.option import Option, options_for, options_of
from ehkafka.wording import ended
from ehkafka.wording.calling import did_you_mean
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ehkafka.handlers.spec import HandlerSpec

OPTIONS: Final[Mapping[str, Option]] = {one.name: one for one in options_of(BatchSpec) if one.outside}
"""All of them, by name."""


class Tunable(NamedTuple):
    """A handler, and the names of those of its options that may be laid over the code's."""

    name: str
    topics: tuple[str, ...]
    options: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name!r} (of {', '.join(self.topics)})"


def tunable(spec: HandlerSpec) -> Tunable:
    """Return what of a handler may be decided outside of the code."""
    options = options_for(type(spec), "batches" if is_batch(spec) else "records")
    return Tunable(spec.name, spec.topics, tuple(one.name for one in options if one.outside))


def key_of(handler: str, option: str) -> str:
    """Return what stands for an option among the names of settings."""
    return f"handlers.{handler}.{option}"


def changed(
    specs: Sequence[HandlerSpec],
    changes: Mapping[str, Mapping[str, Any]],
    origins: Mapping[str, str],
    usual: str,
) -> list[HandlerSpec]:
    """Return the handlers with other options laid over theirs, by handler's name and option's.

    `origins` says where each comes from, by `key_of`; `usual` is for what it does not name. Raises
    `ConfigurationError`.
    """
    result = list(specs)
    for name, options in changes.items():
        if not isinstance(options, Mapping):
            raise ConfigurationError(
                f"{usual}: give a handler's options by name, as handlers={{{name!r}: {{'workers': 8}}}}."
            )
        found_in = {option: origins.get(key_of(name, option), usual) for option in options}
        place = _place_of(name, specs, next(iter(found_in.values()), usual))
        result[place] = _with(specs[place], options, found_in)
    return result


def unknown_option(handler: Tunable, option: str, origin: str) -> ConfigurationError:
    """Return the error for an option that a handler does not have."""
    meant = did_you_mean(option, handler.options)
    only = f", only {', '.join(handler.options)}; set its other options in its code"
    return ConfigurationError(
        ended(
            f"{origin}: handler {handler} has no option {option!r} that can be set outside the "
            f"code{meant or only}"
        )
    )


def unknown_handler(name: str, handlers: Iterable[Tunable], origin: str) -> ConfigurationError:
    """Return the error for a handler that is not there."""
    known = [handler.name for handler in handlers]
    those = f": it has {', '.join(dict.fromkeys(known))}" if known else ": it has none"
    meant = did_you_mean(name, known)
    return ConfigurationError(ended(f"{origin}: the app has no handler {name!r}{meant or those}"))


def several_handlers(handlers: Iterable[Tunable], origin: str) -> ConfigurationError:
    """Return the error for a name that fits more than one handler."""
    return ConfigurationError(
        f"{origin} fits several handlers, {' and '.join(map(str, handlers))}: rename the function of one "
        f"of these handlers."
    )


def _place_of(name: str, specs: Sequence[HandlerSpec], origin: str) -> int:
    places = [place for place, spec in enumerate(specs) if spec.name == name]
    if len(places) > 1:
        raise several_handlers((tunable(specs[place]) for place in places), origin)
    if not places:
        raise unknown_handler(name, map(tunable, specs), origin)
    return places[0]


def _with(spec: HandlerSpec, options: Mapping[str, Any], found_in: Mapping[str, str]) -> HandlerSpec:
    handler = tunable(spec)
    for option in options:
        if option not in handler.options:
            raise unknown_option(handler, option, found_in[option])
    given = dict(options)
    try:
        workers = given.get("workers")
        # The code alone knows whether a function can run in processes; how many is a matter of the machine.
        if isinstance(spec.workers, Processes) and not isinstance(workers, Processes | None):
            given["workers"] = replace(spec.workers, count=workers)
        return replace(spec, **given)
    except ConfigurationError as error:
        raise ConfigurationError(f"{_blamed(str(error), found_in)}: {error}") from None


def _blamed(error: str, found_in: Mapping[str, str]) -> str:
    """Return where the value stands that an error is about; all places where it does not say."""
    words = {option: "count=" if "Processes(count=" in error else f"{option}=" for option in found_in}
    named = [origin for option, origin in found_in.items() if words[option] in error]
    return ", ".join(named or found_in.values())
