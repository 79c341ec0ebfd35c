"""Registered handlers: what a decorator was given, checked.

Values and pure functions; the runtime turns each spec into a route when the app starts. How a handler's
function is called is `call`'s.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.headers import HeaderMode
from ehkafka.lanes.order import NullKey, Scope, by_key
from ehkafka.positions.start import check_start, check_start_topics
from ehkafka.records.deferral import DEADLINE_S_MAX
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Hold, Stop
from ehkafka.recovery.retry import NO_RETRY, Retry, RetryFunction
from ehkafka.settings import check_max_age, options_of
from ehkafka.settings.option import option
from ehkafka.settings.secret import quoted
from ehkafka.wording.calling import (
    TOPIC_CHARACTERS_MAX,
    is_async,
    is_async_generator,
    is_generator,
    is_topic_name,
    must_answer,
    must_take,
    must_take_in_class,
    named,
    refuse,
)
from ehkafka.workers.auto import Auto
from ehkafka.workers.option import USE, WORDS, are_possible, mistakes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from datetime import timedelta
    from typing import TypeGuard

    from ehkafka.codecs.codec import Decoder
    from ehkafka.handlers.batch import BatchSpec
    from ehkafka.handlers.payload import Payload
    from ehkafka.workers.auto import Bounds
    from ehkafka.workers.option import WorkersOption

# What waits for the acknowledgement of a record's outputs: its commit alone, or its key's next record, too.
Acknowledged = Literal["before_commit", "before_next"]

# One call in an hour · more than one process can make.
RATE_MIN = 1 / 3600
RATE_MAX = 1e6
_NO_TOPICS: Final = (
    "give the topics that it handles, such as @app.handler('orders'), since its endpoint names none (a "
    "connection string does with EntityPath=…)."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """One handler of an app. `function` is a callable, or a class with `process(record)`."""

    topics: tuple[str, ...]
    function: Any
    order_by: Callable[..., Hashable] = option(
        by_key,
        "the key of a record, as a function of it. Records of equal keys are handled one after another, in "
        "order; others at the same time.",
        section="Order",
        given="Callable[[Record], Hashable]",
        fits=callable,
        use="it is not callable: give by_key, by_partition, unordered or a function of a record, such as "
        "lambda record: record.json()['id'].",
    )
    scope: Scope = option(
        "partition",
        'where equal keys count as one: within a `"partition"`, or in all partitions and topics of the '
        '`"handler"`.',
        one_of=get_args(Scope),
    )
    null_key: NullKey = option(
        "spread",
        'how records without a key are ordered: `"spread"` not at all, `"partition"` as one key of their '
        "partition.",
        one_of=get_args(NullKey),
    )
    workers: WorkersOption = option(16, WORDS, section="Workers", outside=True, use=USE)
    headers: HeaderMode = option(
        "auto",
        'how `Record.properties` decodes: `"auto"` (AMQP values or text on Event Hubs, text elsewhere), '
        '`"amqp"`, or `"raw"` for the bytes; `ehkafka.headers.modes` has the rules.',
        section="Records",
        one_of=get_args(HeaderMode),
    )
    raw: bool = option(
        False,
        "pass confluent's `Message` itself instead of a `Record`.",
        only="records",
        fits=lambda raw: type(raw) is bool,
        use="use True or False.",
    )
    value: Any = option(
        None,
        "what a payload is decoded to. `None`: the type of the annotation, if there is one.",
        unit="a type",
    )
    decoder: Decoder | None = option(
        None,
        "decodes the payload, called with its bytes, or with these and the record. `None`: JSON, text or "
        "bytes, as the type wants it.",
        unit="a function",
    )
    start: Any = option(
        None,
        "where the handler begins to read a partition without a commit. `None`: at the app's `start`.",
        outside=True,
        given="Start | None",
        rule=check_start,
    )
    max_age: timedelta | None = option(
        None,
        "age above which records of the handler's topics are skipped and counted. `None`: the app's "
        "`max_age`.",
        outside=True,
        rule=check_max_age,
    )
    retry: Retry | RetryFunction = option(
        NO_RETRY,
        "when a record that failed is retried. Its key waits meanwhile, others do not.",
        section="Failure and outputs",
        typed="Retry(attempts=1)",
        fits=lambda retry: isinstance(retry, Retry) or (callable(retry) and not inspect.isclass(retry)),
        use="use Retry(attempts=…), or a function (record, attempt, error) that returns the seconds until "
        "the next attempt or None.",
    )
    on_failure: FailurePolicy = option(
        None,
        "what happens when no attempt is left: `Stop()`, `Hold()`, `Skip()` or `DeadLetter(…)`. `None`: "
        "`Stop()`.",
        given="FailurePolicy | None",
        fits=lambda policy: isinstance(policy, FailurePolicy),
        use="use Stop(), Hold(), Skip() or DeadLetter(…).",
    )
    to: tuple[str, ...] = option(
        None,
        "the topic, or topics, that it sends to: what it returns goes to the first one, a `Send` to its own. "
        "All of a call is sent once it has ended well, what `record.send(…)` was given, too; what a batch "
        "handler returns has keys of its own, and all records of the batch wait for it. `None`: it sends "
        "nothing.",
        given="str | Sequence[str] | None",
        fits=lambda to: all(map(is_topic_name, to)),
        use="give the name of the topic that it sends to, or a list of them.",
    )
    acknowledged: Acknowledged = option(
        "before_commit",
        "what waits for the broker's acknowledgement of a record's outputs: its commit, or "
        '`"before_next"`: the next record of its key as well.',
        only="records",
        one_of=get_args(Acknowledged),
    )
    deadline_s: float | None = option(
        None,
        "how long one call can take. Then a coroutine is cancelled, a process is ended, and the attempt has "
        "failed; a thread cannot be stopped, so it is reported and health turns red. `None`: no limit.",
        section="Limits",
        only="records",
        outside=True,
        above=0,
        most=DEADLINE_S_MAX,
        use=f"give the seconds that one call may take, above 0 and up to {DEADLINE_S_MAX:.0f}, or None for "
        "no limit.",
    )
    rate_limit: float | None = option(
        None,
        "how many calls can start per second, retries included. At once after a rest a tenth of it, 1 at "
        "least. `None`: no limit.",
        unit="calls per second",
        only="records",
        outside=True,
        least=RATE_MIN,
        most=RATE_MAX,
        use=f"give the calls per second, from {RATE_MIN:g} to {RATE_MAX:.0f}, or None for no limit.",
    )
    # What its records are decoded to; None where it takes the record alone.
    payload: Payload | None = None
    # Whether it is an async generator. Known once: asking takes 5 µs.
    yields: bool = field(init=False, repr=False, default=False)

    # What it is called with.
    argument: ClassVar[str] = "record"

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        where = f"{'batch ' if is_batch(self) else ''}handler {self.name!r}"
        given = {"to": topics_of(self.to), "yields": is_async_generator(self.called)}
        given["on_failure"] = Stop() if self.on_failure is None else self.on_failure
        given["workers"] = Auto() if self.workers == "auto" else self.workers
        for name, value in given.items():
            object.__setattr__(self, name, value)
        if not self.topics:
            raise ConfigurationError(f"{where}: topics=(); {_NO_TOPICS}")
        if not callable(self.function):
            shown = quoted(self.function)
            raise ConfigurationError(
                f"{where}: function={shown} cannot be called: decorate a function or a class."
            )
        for one in options_of(type(self)):
            value = getattr(self, one.name)
            problem = one.problem(value)
            if one.name == "workers" and not self.has_workers():
                problem = f"; {one.use}"
            if problem:
                raise ConfigurationError(f"{where}: {one.name}={quoted(value)}{problem}")
        check_topics(self.topics, where)
        refuse(where, self.mistakes())
        self._check_functions(where)
        check_start_topics(self.start, self.topics)

    def has_workers(self) -> bool:
        """Tell whether it may have so many workers."""
        return are_possible(self.workers, is_async=self.is_async)

    def mistakes(self) -> dict[str, bool]:
        """Return what is wrong though each option is right by itself, and whether it is so."""
        kind, policy, waits = self.function, self.on_failure, self.acknowledged
        holds = "Hold()" if isinstance(policy, Hold) else ""
        if isinstance(policy, DeadLetter) and policy.after != "continue":
            holds = f"DeadLetter(after={policy.after!r})"
        letters = policy.to if isinstance(policy, DeadLetter) and policy.to in self.topics else None
        return mistakes_of(self.workers, self) | {
            "the class has no method process(record): give it one, or decorate a function.": self.is_class
            and not callable(self.called),
            "its open() or close() is an async def, but the thread that calls it has no event loop. Make "
            "it a plain function, and open clients of the event loop in on_worker_start.": self.is_class
            and any(is_async(getattr(kind, name, None)) for name in ("open", "close")),
            "it contains `yield`, so calling it would run none of its code: leave the `yield` out, or add "
            "to= with the topic for the yielded values.": is_generator(self.called) and not self.to,
            f"its dead-letter topic {letters!r} is one of its own topics, so each dead letter would come "
            f"back and fail again: give another topic.": letters is not None,
            f"acknowledged={waits!r} needs outputs: add to= with the topic of the outputs, or leave "
            f"acknowledged= out.": waits != "before_commit" and not self.to,
            "acknowledged='before_next' does not work with batches, because all keys of a batch would "
            "wait: leave it out.": waits == "before_next" and is_batch(self),
            f"on_failure={holds} would hold back a key's next records too late, because they can start "
            f"before the broker acknowledges the outputs: add acknowledged='before_next', or choose another "
            f"on_failure.": bool(holds and self.to) and waits == "before_commit",
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
            right = (
                f"write {kind} {self.name}({given[0]}), with no other parameter, and open the handler's "
                f"clients and connections in on_worker_start"
            )
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


def is_batch(spec: HandlerSpec) -> TypeGuard[BatchSpec]:
    """Tell whether a handler takes batches, without loading what these need."""
    return spec.argument == "batch"


def _collecting(function: Any) -> Any:
    """Return an async generator's function as one that returns all that it yields, sent together."""

    async def collect(*given: Any) -> list[Any]:
        return [one async for one in function(*given)]

    return collect


def check_topics(topics: tuple[Any, ...], where: str) -> None:
    """Refuse what is no name of a topic. Raises `ConfigurationError`."""
    for topic in topics:
        if not is_topic_name(topic) or "sharedaccess" in topic.lower():
            raise ConfigurationError(
                f"{where}: {quoted(topic).removesuffix(',')} is not the name of a topic: give each topic "
                f"as text of 1 to {TOPIC_CHARACTERS_MAX} printable characters, such as "
                f"@app.handler('orders', 'returns')."
            )


def topics_of(to: object) -> tuple[Any, ...]:
    """Return what `to=` names, one or several; what is no name is refused with the handler."""
    if to is None:
        return ()
    return tuple(to) if isinstance(to, list | tuple) else (to,)


def check_decorated(topics: tuple[object, ...], decorator: str) -> None:
    """Refuse a decorator without parentheses, which is given the function for a topic."""
    if len(topics) == 1 and callable(topics[0]):
        raise ConfigurationError(
            f"@app.{decorator} has no parentheses and no topics: write @app.{decorator}('orders') above "
            f"{named(topics[0])}."
        )
    check_topics(topics, f"@app.{decorator}")


def must_have_own_topics(spec: HandlerSpec, others: Iterable[HandlerSpec]) -> None:
    """Refuse a topic that has a handler already. Raises `ConfigurationError`."""
    taken = {topic: other.name for other in others for topic in other.topics}
    for topic in spec.topics:
        if topic in taken:
            raise ConfigurationError(
                f"Topic {topic!r} already has handler {taken[topic]!r}, so handler {spec.name!r} cannot "
                f"have it: a topic has one handler. Let one function call the other, or use two apps with "
                f"different groups."
            )
