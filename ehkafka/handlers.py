"""Registered handlers: what a decorator was given, checked.

Values and pure functions; the runtime turns each spec into a route when the app starts. How a handler's
function is called is `invoking`'s.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

from ehkafka.errors import ConfigurationError
from ehkafka.headers import HeaderMode
from ehkafka.intake.start import check_start_topics
from ehkafka.lanes.order import NullKey, Scope, by_key
from ehkafka.recovery.policy import DeadLetter, FailurePolicy, Stop
from ehkafka.recovery.retry import NO_RETRY, Retry, RetryFunction
from ehkafka.settings import check_max_age

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import timedelta

WORKERS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerSpec:
    """One handler of an app. `function` is a callable, or a class with `process(record)`."""

    topics: tuple[str, ...]
    function: Any
    order_by: Callable[..., Hashable] = by_key
    scope: Scope = "partition"
    null_key: NullKey = "spread"
    workers: int = 16
    raw: bool = False
    headers: HeaderMode = "auto"
    start: Any = None
    max_age: timedelta | None = None
    retry: Retry | RetryFunction = NO_RETRY
    on_failure: FailurePolicy = field(default_factory=Stop)

    def __post_init__(self) -> None:
        """Refuse what cannot be run. Raises `ConfigurationError`."""
        where = f"handler {self.name!r}"
        if not self.topics or not all(isinstance(topic, str) and topic for topic in self.topics):
            raise ConfigurationError(
                f"{where}: give the topics it handles as non-empty names, not {self.topics!r}."
            )
        if not callable(self.function):
            raise ConfigurationError(
                f"{where}: {self.function!r} is not callable; decorate a function or a class."
            )
        if self.is_class and not callable(getattr(self.function, "process", None)):
            raise ConfigurationError(f"{where}: the class has no process(record) method.")
        if is_async(self.function.process if self.is_class else self.function):
            raise ConfigurationError(f"{where}: it is an async def; this version runs plain functions only.")
        if inspect.isgeneratorfunction(self.function.process if self.is_class else self.function):
            raise ConfigurationError(
                f"{where}: it contains yield, so that calling it would run nothing of it."
            )
        if not callable(self.order_by):
            raise ConfigurationError(f"{where}: order_by={self.order_by!r} is not callable.")
        if self.scope not in get_args(Scope):
            raise ConfigurationError(f"{where}: scope={self.scope!r}; use one of {get_args(Scope)}.")
        if self.null_key not in get_args(NullKey):
            raise ConfigurationError(f"{where}: null_key={self.null_key!r}; use one of {get_args(NullKey)}.")
        if self.headers not in get_args(HeaderMode):
            raise ConfigurationError(f"{where}: headers={self.headers!r}; use one of {get_args(HeaderMode)}.")
        if type(self.workers) is not int or not 1 <= self.workers <= WORKERS_MAX:
            raise ConfigurationError(
                f"{where}: workers={self.workers!r}; use a number from 1 to {WORKERS_MAX}."
            )
        check_max_age(self.max_age)
        check_start_topics(self.start, self.topics)
        self._check_recovery(where)

    def _check_recovery(self, where: str) -> None:
        if not isinstance(self.on_failure, FailurePolicy):
            raise ConfigurationError(
                f"{where}: on_failure={self.on_failure!r}; use Stop(), Hold(), Skip() or DeadLetter(…)."
            )
        if not isinstance(self.retry, Retry) and (inspect.isclass(self.retry) or not callable(self.retry)):
            raise ConfigurationError(
                f"{where}: retry={self.retry!r}; use Retry(attempts=…), or a function "
                "(record, attempt, error) that returns the seconds until the next attempt or None."
            )
        if isinstance(self.on_failure, DeadLetter) and self.on_failure.to in self.topics:
            raise ConfigurationError(
                f"{where}: its dead letters would go to {self.on_failure.to!r}, which it handles itself; "
                "each would come back and fail again. Give another topic."
            )

    @property
    def name(self) -> str:
        """The function's or class's own name, for threads, logs and errors."""
        return getattr(self.function, "__name__", None) or type(self.function).__name__

    @property
    def is_class(self) -> bool:
        """True when each partition gets an instance of its own."""
        return inspect.isclass(self.function)


def is_async(function: Any) -> bool:
    """Tell whether calling it gives a coroutine, also for an object with an async `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its kind is asked, not whether it is there
    )


def must_be_plain(function: Any, what: str) -> None:
    """Refuse what is no plain function. Raises `ConfigurationError` naming `what` it was given for."""
    if not callable(function):
        raise ConfigurationError(f"{what}: {function!r} is not callable.")
    if is_async(function):
        raise ConfigurationError(f"{what}: an async def is not supported here; give a plain function.")
