"""Registered handlers: what a decorator was given, checked.

Values and pure functions; the runtime turns each spec into a route when the app starts. How a handler's
function is called is `call`'s.
"""

from __future__ import annotations

import functools
import inspect
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

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
    from collections.abc import Callable, Hashable, Iterable
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

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        where = f"handler {self.name!r}"
        if not self.topics:
            raise ConfigurationError(
                f"{where}: give the topics it handles, such as @app.handler('orders'), since its endpoint "
                "names none (a connection string does with EntityPath=…)."
            )
        check_topics(self.topics, where)
        if not callable(self.function):
            raise ConfigurationError(
                f"{where}: {quoted(self.function)} is not callable: decorate a function or a class."
            )
        if self.is_class and not callable(getattr(self.function, "process", None)):
            raise ConfigurationError(
                f"{where}: the class has no method process(record): give it one, or decorate a function."
            )
        if self.workers == "auto":
            object.__setattr__(self, "workers", Auto())
        object.__setattr__(self, "yields", is_async_generator(self._called))
        if is_generator(self._called) and not self.to:
            raise ConfigurationError(
                f"{where}: it contains yield, so that calling it would run nothing of it: leave the yield "
                "out, or give it to=, the topic that it sends what it yields to."
            )
        self._check_arguments(where)
        if not callable(self.order_by):
            raise ConfigurationError(
                f"{where}: order_by={quoted(self.order_by)} is not callable: give by_key, by_partition, "
                "unordered or a function of a record, such as lambda record: record.json()['id']."
            )
        must_answer(self.order_by, ("record",), f"{where}: order_by={named(self.order_by)}")
        for option, known in (("scope", Scope), ("null_key", NullKey), ("headers", HeaderMode)):
            if (value := getattr(self, option)) not in get_args(known):
                raise ConfigurationError(f"{where}: {option}={value!r}; use one of {get_args(known)}.")
        if type(self.raw) is not bool:
            raise ConfigurationError(f"{where}: raw={self.raw!r}; use True or False.")
        self._check_workers(where)
        self._check_opening(where)
        check_max_age(self.max_age)
        check_start_topics(self.start, self.topics)
        self._check_recovery(where)
        self._check_limits(where)
        self._check_outputs(where)

    def _check_arguments(self, where: str) -> None:
        given: tuple[str, ...] = ("message",) if self.raw is True else (self.argument,)
        if self.payload is not None and self.argument == "record":
            given = self.payload.arguments
        if not self.is_class:
            kind = "async def" if self.is_async else "def"
            right = f"write {kind} {self.name}({given[0]}), and open what else it needs in on_worker_start"
            must_take(self.function, given, where, instead=right if self.name.isidentifier() else "")
            return
        make = "it is made once for each partition, so leave them out and use open(partition)"
        must_take(self.function, (), f"{where}: the class", instead=make)
        must_take_in_class(self.function, "process", given, f"{where}: process")
        must_take_in_class(self.function, "open", ("partition",), f"{where}: open")
        must_take_in_class(self.function, "close", ("reason",), f"{where}: close")

    def _check_workers(self, where: str) -> None:
        if isinstance(self.workers, Processes):
            self._check_processes(where)
            return
        workers_max = TASKS_MAX if self.is_async else WORKERS_MAX
        if (auto := self.auto) is not None:
            if auto.most > workers_max:
                raise ConfigurationError(
                    f"{where}: workers={self.workers!r}; workers_max may be up to {workers_max}."
                )
        elif type(self.workers) is not int or not 1 <= self.workers <= workers_max:
            raise ConfigurationError(
                f"{where}: workers={quoted(self.workers)}; use a number from 1 to {workers_max}, "
                '"auto", or Processes(…).'
            )

    def _check_processes(self, where: str) -> None:
        unfit = {
            "raw=True hands over confluent's Message, which cannot be pickled for processes; take the "
            "Record, which has the same methods": self.raw,
            "a class handler keeps an instance for each partition, and processes share the partitions; use a "
            "function, with what it keeps opened in on_worker_start": self.is_class,
            "an async def needs an event loop, and processes have none; use a plain function, and open its "
            "clients in on_worker_start": self.is_async,
            "a lambda, or a function inside another one, cannot be pickled for processes, which import it by "
            "name; put it at the top level of a module": is_nameless(self.function),
        }
        for reason in (reason for reason, is_so in unfit.items() if is_so):
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}: {reason}, or use threads: workers=16."
            )

    def _check_opening(self, where: str) -> None:
        for name in ("open", "close"):
            if self.is_class and is_async(getattr(self.function, name, None)):
                raise ConfigurationError(
                    f"{where}: its {name}() is an async def, but is called on the hook thread, where no "
                    "event loop runs. Make it a plain function; open what belongs to the loop in "
                    "on_worker_start."
                )

    def _check_recovery(self, where: str) -> None:
        if not isinstance(self.on_failure, FailurePolicy):
            raise ConfigurationError(
                f"{where}: on_failure={quoted(self.on_failure)}; use Stop(), Hold(), Skip() or DeadLetter(…)."
            )
        if not isinstance(self.retry, Retry) and (inspect.isclass(self.retry) or not callable(self.retry)):
            raise ConfigurationError(
                f"{where}: retry={quoted(self.retry)}; use Retry(attempts=…), or a function "
                "(record, attempt, error) that returns the seconds until the next attempt or None."
            )
        if not isinstance(self.retry, Retry):
            must_answer(self.retry, ("record", "attempt", "error"), f"{where}: retry={named(self.retry)}")
        if isinstance(self.on_failure, DeadLetter) and callable(self.on_failure.to):
            what = f"{where}: on_failure=DeadLetter({named(self.on_failure.to)})"
            must_answer(self.on_failure.to, ("letter",), what)
        if isinstance(self.on_failure, DeadLetter) and self.on_failure.to in self.topics:
            raise ConfigurationError(
                f"{where}: its dead letters would go to {self.on_failure.to!r}, which it handles itself; "
                "each would come back and fail again: give another topic."
            )

    def _check_outputs(self, where: str) -> None:
        if self.acknowledged not in get_args(Acknowledged):
            raise ConfigurationError(
                f"{where}: acknowledged={quoted(self.acknowledged)}; use one of {get_args(Acknowledged)}."
            )
        if not self.to:
            if self.acknowledged != "before_commit":
                raise ConfigurationError(
                    f"{where}: acknowledged={self.acknowledged!r} means nothing without outputs: "
                    f"give to=, the "
                    "topic that it sends to."
                )
            return
        for topic in self.to:
            if not is_topic_name(topic):
                raise ConfigurationError(
                    f"{where}: to={quoted(topic)}; give the name of the topic that it sends to, or a list of "
                    "them."
                )
        if self.acknowledged == "before_next":
            if is_batch(self):
                raise ConfigurationError(
                    f"{where}: acknowledged='before_next' is for handlers of one record: a batch has records "
                    "of many keys, and all of them would wait. Leave it out."
                )
            return
        after = self.on_failure.after if isinstance(self.on_failure, DeadLetter) else "continue"
        if isinstance(self.on_failure, Hold) or after != "continue":
            what = "Hold()" if isinstance(self.on_failure, Hold) else f"DeadLetter(after={after!r})"
            raise ConfigurationError(
                f"{where}: on_failure={what} is to stop a key's next records, but these run before "
                f"its outputs "
                "are acknowledged: give acknowledged='before_next' as well, or another on_failure."
            )

    def _check_limits(self, where: str) -> None:
        if self.deadline_s is not None and not _is_within(self.deadline_s, DEADLINE_S_MAX):
            raise ConfigurationError(
                f"{where}: deadline_s={self.deadline_s!r}; give the seconds that one call may take, above 0 "
                f"and up to {DEADLINE_S_MAX:.0f}, or None for no limit."
            )
        if self.rate_limit is not None and not _is_within(self.rate_limit, RATE_MAX, least=RATE_MIN):
            raise ConfigurationError(
                f"{where}: rate_limit={self.rate_limit!r}; give the calls per second, from {RATE_MIN:g} to "
                f"{RATE_MAX:.0f}, or None for no limit."
            )

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
        return is_async(self._called) or self.yields

    def of_record(self, function: Any) -> Any:
        """Return the function, or an instance's method, as one of a record alone."""
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
    def _called(self) -> Any:
        return self.function.process if self.is_class else self.function


def _is_within(value: object, most: float, *, least: float = 0.0) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and 0 < value <= most and value >= least  # type: ignore[arg-type,operator]


def is_batch(spec: HandlerSpec) -> TypeGuard[BatchSpec]:
    """Tell whether a handler takes batches, without loading what these need."""
    return spec.argument == "batch"


def is_async(function: Any) -> bool:
    """Tell whether calling it gives a coroutine, also for an object with an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _run_by(function)))


def is_generator(function: Any) -> bool:
    """Tell whether calling it would run nothing of it before somebody iterates."""
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


def check_topics(topics: tuple[Any, ...], where: str) -> None:
    """Refuse what is no name of a topic. Raises `ConfigurationError`."""
    for topic in topics:
        if isinstance(topic, list | tuple | set | frozenset):
            raise ConfigurationError(
                f"{where}: give topics one by one, such as @app.handler('orders', 'returns'), not as a "
                f"{type(topic).__name__}."
            )
        if not is_topic_name(topic) or "sharedaccess" in topic.lower():
            raise ConfigurationError(
                f"{where}: give the topics it handles as non-empty names of {TOPIC_CHARACTERS_MAX} printable "
                f"characters at most, such as @app.handler('orders'), not {quoted(topic).removesuffix(',')}."
            )


def topics_of(to: Any) -> tuple[Any, ...]:
    """Return what `to=` names, one or several; what is no name is refused with the handler."""
    if to is None:
        return ()
    return tuple(to) if isinstance(to, list | tuple) else (to,)


def must_answer(function: Any, given: tuple[str, ...], what: str) -> None:
    """Refuse a function whose result nobody could take for an answer, or that cannot be called so."""
    must_be_plain(function, what)
    must_take(function, given, what)


def must_be_callable(function: Any, what: str) -> None:
    """Refuse what cannot be called. Raises `ConfigurationError` naming `what` it was given for."""
    if not callable(function):
        raise ConfigurationError(
            f"{what}: a {type(function).__name__} cannot be called: give a function, by its name and without "
            "parentheses."
        )
    if is_generator(function):
        raise ConfigurationError(
            f"{what}: {named(function)} contains yield, so that calling it would run nothing of it: give "
            "a plain function without it."
        )


def must_be_plain(function: Any, what: str) -> None:
    """Refuse what is no plain function. Raises `ConfigurationError` naming `what` it was given for."""
    must_be_callable(function, what)
    if is_async(function):
        raise ConfigurationError(
            f"{what}: an async def is called here without an event loop, so that nothing of it would run: "
            "give a plain function, and open what async handlers share in on_worker_start, which runs on "
            "their loop."
        )


def check_decorated(topics: tuple[Any, ...], decorator: str) -> None:
    """Refuse a decorator without parentheses, which is given the function for a topic."""
    if len(topics) == 1 and callable(topics[0]):
        raise ConfigurationError(
            f"@app.{decorator} stands without parentheses: write @app.{decorator}('orders') above "
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
