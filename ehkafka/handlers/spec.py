"""Registered handlers: what a decorator was given, checked.

Values and pure functions; the runtime turns each spec into a route when the app starts. How a handler's
function is called is `call`'s.
"""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.headers import HeaderMode
from ehkafka.lanes.order import NullKey, Scope, by_key
from ehkafka.positions.start import check_start_topics
from ehkafka.records.deferral import DEADLINE_S_MAX
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Hold, Stop
from ehkafka.recovery.retry import NO_RETRY, Retry, RetryFunction
from ehkafka.settings import check_max_age
from ehkafka.settings.secret import quoted
from ehkafka.wording.calling import TOPIC_CHARACTERS_MAX, is_topic_name, must_take, must_take_in_class
from ehkafka.workers.auto import Auto
from ehkafka.workers.processes.option import Processes, is_nameless

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from datetime import timedelta
    from typing import TypeGuard

    from ehkafka.handlers.batch import BatchSpec
    from ehkafka.handlers.payload import Payload
    from ehkafka.workers.auto import Bounds, WorkersOption

# What waits for the acknowledgement of a record's outputs: its commit alone, or its key's next record, too.
Acknowledged = Literal["before_commit", "before_next"]

WORKERS_MAX = 10_000
# Tasks of one event loop.
TASKS_MAX = 100_000
# One call in an hour · more than one process can make.
RATE_MIN = 1 / 3600
RATE_MAX = 1e6
# Which values an option may have: the end of the error that refuses another one.
_USE: Final = {
    "topics": "give the topics that it handles, such as @app.handler('orders'), since its endpoint names "
    "none (a connection string does with EntityPath=…).",
    "function": "it is not callable: decorate a function or a class.",
    "order_by": "it is not callable: give by_key, by_partition, unordered or a function of a record, such as "
    "lambda record: record.json()['id'].",
    "scope": f"use one of {get_args(Scope)}.",
    "null_key": f"use one of {get_args(NullKey)}.",
    "workers": f'use a number from 1 to {WORKERS_MAX}, or {TASKS_MAX} for an async def; "auto", or Auto(…) '
    "with a workers_max up to that; or Processes(…).",
    "raw": "use True or False.",
    "headers": f"use one of {get_args(HeaderMode)}.",
    "retry": "use Retry(attempts=…), or a function (record, attempt, error) that returns the seconds until "
    "the next attempt or None.",
    "on_failure": "use Stop(), Hold(), Skip() or DeadLetter(…).",
    "deadline_s": "give the seconds that one call may take, above 0 and up to "
    f"{DEADLINE_S_MAX:.0f}, or None for no limit.",
    "rate_limit": f"give the calls per second, from {RATE_MIN:g} to {RATE_MAX:.0f}, or None for no limit.",
    "to": "give the name of the topic that it sends to, or a list of them.",
    "acknowledged": f"use one of {get_args(Acknowledged)}.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """One handler of an app. `function` is a callable, or a class with `process(record)`."""

    topics: tuple[str, ...]
    function: Any
    order_by: Callable[..., Hashable] = by_key
    scope: Scope = "partition"
    null_key: NullKey = "spread"
    workers: WorkersOption = 16
    raw: bool = False
    headers: HeaderMode = "auto"
    start: Any = None
    max_age: timedelta | None = None
    retry: Retry | RetryFunction = NO_RETRY
    on_failure: FailurePolicy = field(default_factory=Stop)
    deadline_s: float | None = None
    rate_limit: float | None = None
    # Topics of its outputs, the first one by default; none: it sends nothing.
    to: tuple[str, ...] = ()
    acknowledged: Acknowledged = "before_commit"
    # What its records are decoded to; None where it takes the record alone.
    payload: Payload | None = None
    # Whether it is an async generator. Known once: asking takes 5 µs.
    yields: bool = field(init=False, repr=False, default=False)

    # What it is called with.
    argument: ClassVar[str] = "record"
    use: ClassVar[Mapping[str, str]] = _USE

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        where = f"{'batch ' if is_batch(self) else ''}handler {self.name!r}"
        if self.workers == "auto":
            object.__setattr__(self, "workers", Auto())
        object.__setattr__(self, "yields", is_async_generator(self.called))
        for option, is_right in self.options().items():
            if not is_right:
                value = quoted(getattr(self, option))
                raise ConfigurationError(f"{where}: {option}={value}; {self.use[option]}")
        check_topics(self.topics, where)
        refuse(where, self.mistakes())
        self._check_functions(where)
        check_max_age(self.max_age)
        check_start_topics(self.start, self.topics)

    def options(self) -> dict[str, bool]:
        """Return whether each option has a value that may be."""
        most = TASKS_MAX if self.is_async else WORKERS_MAX
        workers = self.workers if self.auto is None else self.auto.most
        retry, deadline_s = self.retry, self.deadline_s
        return {
            "topics": bool(self.topics),
            "function": callable(self.function),
            "order_by": callable(self.order_by),
            "scope": self.scope in get_args(Scope),
            "null_key": self.null_key in get_args(NullKey),
            "workers": isinstance(workers, Processes) or is_count(workers, most),
            "raw": type(self.raw) is bool,
            "headers": self.headers in get_args(HeaderMode),
            "retry": isinstance(retry, Retry) or (callable(retry) and not inspect.isclass(retry)),
            "on_failure": isinstance(self.on_failure, FailurePolicy),
            "deadline_s": deadline_s is None or is_within(deadline_s, math.ulp(0.0), DEADLINE_S_MAX),
            "rate_limit": self.rate_limit is None or is_within(self.rate_limit, RATE_MIN, RATE_MAX),
            "to": all(map(is_topic_name, self.to)),
            "acknowledged": self.acknowledged in get_args(Acknowledged),
        }

    def mistakes(self) -> dict[str, bool]:
        """Return what is wrong though each option is right by itself, and whether it is so."""
        kind, policy, waits = self.function, self.on_failure, self.acknowledged
        forks = isinstance(self.workers, Processes)
        holds = "Hold()" if isinstance(policy, Hold) else ""
        if isinstance(policy, DeadLetter) and policy.after != "continue":
            holds = f"DeadLetter(after={policy.after!r})"
        letters = policy.to if isinstance(policy, DeadLetter) and policy.to in self.topics else None
        return {
            "workers=Processes(…): raw=True hands over confluent's Message, which cannot be pickled for "
            "them; take the Record, which has the same methods, or threads: workers=16.": forks and self.raw,
            "workers=Processes(…): a class handler keeps an instance for each partition, and processes share "
            "them; use a function, with what it keeps opened in on_worker_start, or threads: "
            "workers=16.": forks and self.is_class,
            "workers=Processes(…): an async def needs an event loop, and processes have none; use a plain "
            "function, which opens its clients in on_worker_start, or threads: "
            "workers=16.": forks and self.is_async,
            "workers=Processes(…): a lambda, or a function inside another one, cannot be pickled for them: "
            "they import it by name; put it at the top level of a module, or use threads: "
            "workers=16.": forks and is_nameless(kind),
            "the class has no method process(record): give it one, or decorate a function.": self.is_class
            and not callable(self.called),
            "its open() or close() is an async def, but is called on the hook thread, where no event loop "
            "runs. Make it a plain function; open what belongs to the loop in on_worker_start.": self.is_class
            and any(is_async(getattr(kind, name, None)) for name in ("open", "close")),
            "it contains yield, so that calling it would run nothing of it: leave the yield out, or give it "
            "to=, the topic that it sends what it yields to.": is_generator(self.called) and not self.to,
            f"its dead letters would go to {letters!r}, which it handles itself; each would come back and "
            "fail again: give another topic.": letters is not None,
            f"acknowledged={waits!r} means nothing without outputs: give to=, the topic that it sends "
            "to.": waits != "before_commit" and not self.to,
            "acknowledged='before_next' is for handlers of one record: a batch has records of many keys, and "
            "all of them would wait. Leave it out.": waits == "before_next" and is_batch(self),
            f"on_failure={holds} is to stop a key's next records, but these run before its outputs are "
            "acknowledged: give acknowledged='before_next' as well, or another "
            "on_failure.": bool(holds and self.to) and waits == "before_commit",
        }

    def _check_functions(self, where: str) -> None:
        """Refuse functions that cannot be called as they will be."""
        must_answer(self.order_by, ("record",), f"{where}: order_by={named(self.order_by)}")
        if not isinstance(self.retry, Retry):
            must_answer(self.retry, ("record", "attempt", "error"), f"{where}: retry={named(self.retry)}")
        if isinstance(self.on_failure, DeadLetter) and callable(to := self.on_failure.to):
            must_answer(to, ("letter",), f"{where}: on_failure=DeadLetter({named(to)})")
        given: tuple[str, ...] = ("message",) if self.raw else (self.argument,)
        if self.payload is not None and self.argument == "record":
            given = self.payload.arguments
        if not self.is_class:
            kind = "async def" if self.is_async else "def"
            right = f"write {kind} {self.name}({given[0]}), and open what else it needs in on_worker_start"
            must_take(self.function, given, where, instead=right if self.name.isidentifier() else "")
            return
        make = "it is made once for each partition, so leave them out and use open(partition)"
        must_take(self.function, (), f"{where}: the class", instead=make)
        for method, takes in (("process", given), ("open", ("partition",)), ("close", ("reason",))):
            must_take_in_class(self.function, method, takes, f"{where}: {method}")

    @property
    def name(self) -> str:
        """The function's or class's own name, for threads, logs and errors."""
        return named(self.function)

    @property
    def is_class(self) -> bool:
        """True when each partition gets an instance of its own."""
        return inspect.isclass(self.function)

    @property
    def is_async(self) -> bool:
        """True when its calls are awaited, on asyncio workers."""
        return is_async(self.called) or self.yields

    def of_record(self, function: Any) -> Any:
        """Return the function, or an instance's method, as one of a record only."""
        if self.yields:
            function = _collecting(function)
        if self.payload is None or self.argument != "record":
            return function
        return self.payload.around_async(function) if self.is_async else self.payload.around(function)

    @property
    def auto(self) -> Bounds | None:
        """Between which numbers that of its workers is to be found out; None where it is given."""
        return self.workers.bounds(is_async=self.is_async) if isinstance(self.workers, Auto) else None

    @property
    def called(self) -> Any:
        """Its function, or its class's method; None where it has none."""
        return getattr(self.function, "process", None) if self.is_class else self.function


def is_count(value: Any, most: float) -> bool:
    """Tell whether it is a whole number from 1 to `most`."""
    return type(value) is int and 1 <= value <= most


def is_within(value: Any, least: float, most: float) -> bool:
    """Tell whether it is a number from `least` to `most`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and least <= value <= most


def is_batch(spec: HandlerSpec) -> TypeGuard[BatchSpec]:
    """Tell whether a handler takes batches, without loading what these need."""
    return spec.argument == "batch"


def is_async(function: Any) -> bool:
    """Tell whether calling it gives a coroutine, also for an object with an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _run_by(function)))


def is_generator(function: Any) -> bool:
    """Tell whether calling it would run nothing of it before its result is iterated."""
    return is_async_generator(function) or any(map(inspect.isgeneratorfunction, _run_by(function)))


def is_async_generator(function: Any) -> bool:
    """Tell whether what it yields comes by `async for`."""
    return any(map(inspect.isasyncgenfunction, _run_by(function)))


def _run_by(function: Any) -> tuple[Any, Any]:
    """Return what a call may run: the function within partials, or its class's `__call__`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function, getattr(function, "__call__", None)  # noqa: B004 - its kind is asked


def _collecting(function: Any) -> Any:
    """Return an async generator's function as one that returns all that it yields, sent together."""

    async def collect(*given: Any) -> list[Any]:
        return [one async for one in function(*given)]

    return collect


def named(function: Any) -> str:
    """Return a function's name for a message: a repr may show what it was made with."""
    return getattr(function, "__name__", None) or type(function).__name__


def refuse(where: str, mistakes: Mapping[str, bool]) -> None:
    """Raise a `ConfigurationError` with the first of these texts that is so."""
    for text, is_so in mistakes.items():
        if is_so:
            raise ConfigurationError(f"{where}: {text}")


def check_topics(topics: tuple[Any, ...], where: str) -> None:
    """Refuse what is no name of a topic. Raises `ConfigurationError`."""
    for topic in topics:
        if not is_topic_name(topic) or "sharedaccess" in topic.lower():
            raise ConfigurationError(
                f"{where}: give the topics it handles one by one, as non-empty names of "
                f"{TOPIC_CHARACTERS_MAX} printable characters at most, such as @app.handler('orders', "
                f"'returns'), not {quoted(topic).removesuffix(',')}."
            )


def topics_of(to: Any) -> tuple[Any, ...]:
    """Return what `to=` names, one or several; what is no name is refused with the handler."""
    if to is None:
        return ()
    return tuple(to) if isinstance(to, list | tuple) else (to,)


def must_be_callable(function: Any, what: str) -> None:
    """Refuse what cannot be called. Raises `ConfigurationError` naming `what` it was given for."""
    mistakes = {
        f"a {type(function).__name__} cannot be called: give a function, by its name and without "
        "parentheses.": not callable(function),
        f"{named(function)} contains yield, so that calling it would run nothing of it: give a plain "
        "function without it.": is_generator(function),
    }
    refuse(what, mistakes)


def must_answer(function: Any, given: tuple[str, ...], what: str) -> None:
    """Refuse a function whose result could be no answer, or that cannot be called so."""
    must_be_callable(function, what)
    no_loop = (
        "an async def is called here without an event loop, so that nothing of it would run: give a plain "
        "function, and open what async handlers share in on_worker_start, which runs on their loop."
    )
    refuse(what, {no_loop: is_async(function)})
    must_take(function, given, what)


def check_decorated(topics: tuple[Any, ...], decorator: str) -> None:
    """Refuse a decorator without parentheses, which is given the function for a topic."""
    if len(topics) == 1 and callable(topics[0]):
        raise ConfigurationError(
            f"@app.{decorator} is written without parentheses: write @app.{decorator}('orders') above "
            f"{named(topics[0])}, with the topics that it handles."
        )
    check_topics(topics, f"@app.{decorator}")


def must_have_own_topics(spec: HandlerSpec, others: Iterable[HandlerSpec]) -> None:
    """Refuse a topic that has a handler already. Raises `ConfigurationError`."""
    taken = {topic: other.name for other in others for topic in other.topics}
    for topic in spec.topics:
        if topic in taken:
            raise ConfigurationError(
                f"Topic {topic!r} has the handler {taken[topic]!r} already, so {spec.name!r} cannot take "
                "it, too, one handler per topic: let one handler call the other, or give each an app "
                "with a group of its own."
            )
