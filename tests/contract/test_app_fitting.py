"""What may be registered: everything that can be called as it will be, however it was made."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any
from unittest import mock

import pytest

import ehkafka
from ehkafka.wording import calling
from ehkafka.wording.calling import must_take, plainly


def plain(record: Any) -> None:
    """Take a record."""


def optional(record: Any, db: Any = None, *, retries: int = 3) -> None:
    """Take more than it must."""


def anything(*given: Any, **named: Any) -> None:
    """Take whatever comes."""


def two(db: Any, record: Any) -> None:
    """Take two."""


def injected(function: Any) -> Any:
    """Wrap a function and give it what it needs, as many libraries do."""

    @functools.wraps(function)
    def wrapper(record: Any) -> Any:
        return function("db", record)

    return wrapper


def hidden(function: Any) -> Any:
    """Wrap a function and hand everything on."""

    @functools.wraps(function)
    def wrapper(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return wrapper


class Callable:
    """An instance is a handler."""

    def __call__(self, record: Any) -> None:
        """Take a record."""

    def method(self, record: Any) -> None:
        """Take a record."""

    @classmethod
    def of_class(cls, record: Any) -> None:
        """Take a record."""

    @staticmethod
    def static(record: Any) -> None:
        """Take a record."""


class Kept:
    """A class handler."""

    def __init__(self, limit: int = 3) -> None:
        self.limit = limit

    def open(self, partition: Any) -> None:
        """Take a partition."""

    @staticmethod
    def process(record: Any) -> None:
        """Take a record."""

    def close(self, *reason: Any) -> None:
        """Take a reason."""


class Proxy(types.SimpleNamespace):
    """Stands for a function that it calls otherwise, as wrapt's do."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__(__wrapped__=wrapped)

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        """Say to be a function."""
        return types.FunctionType

    def __getattr__(self, name: str) -> Any:
        """Have what it stands for."""
        return getattr(self.__wrapped__, name)

    def __call__(self, record: Any) -> Any:
        """Take a record."""
        return self.__wrapped__("db", record)


@pytest.mark.parametrize(
    "handler",
    [
        plain,
        optional,
        anything,
        injected(two),
        hidden(plain),
        functools.partial(two, "db"),
        functools.partial(functools.partial(two), "db"),
        functools.lru_cache(plain),
        functools.singledispatch(plain),
        Callable(),
        Callable().method,
        Callable.of_class,
        Callable.static,
        Kept,
        lambda record: None,
        lambda record, sent=frozenset(): None,
        print,
        dict,
        [].append,
        str.upper,
        mock.Mock(return_value=None),
        mock.create_autospec(plain),
        Proxy(two),
    ],
)
def test_whatever_takes_a_record_may_be_a_handler(handler: Any) -> None:
    """Functions, methods, partials, wrappers, classes, and what hides its signature."""
    if handler is dict:
        must_take(handler, ("record",), "handler")  # a class without process, but no signature either
        return
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.embedded(), start="earliest")
    assert app.handler("t")(handler) is handler


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (two, r"takes \(db, record\)"),
        (functools.partial(plain, "db"), r"takes \(\)"),
        (hidden(two).__wrapped__, r"takes \(db, record\)"),
        (functools.wraps(plain)(lambda: None), r"takes \(\), but is called with 1 argument, record"),
        (Callable, "no method process"),
        (
            types.new_class(
                "OpensNothing", (Kept,), exec_body=lambda body: body.update(open=lambda self: None)
            ),
            "open takes",
        ),
        (lambda record, *, password="hunter2", db: None, r"takes \(record, \*, password=…, db\)"),
    ],
)
def test_what_does_not_take_a_record_is_refused_by_what_it_takes(handler: Any, words: str) -> None:
    """A wrapper counts as it is, not as what it wraps; defaults are not shown."""
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.embedded(), start="earliest")
    with pytest.raises(ehkafka.errors.ConfigurationError, match=words) as caught:
        app.handler("t")(handler)
    assert "hunter2" not in str(caught.value)


def test_a_type_error_of_what_is_called_stays_what_it_is() -> None:
    """Only the call itself is explained."""

    @plainly
    def inner() -> None:
        plain()  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'record'"):
        inner()


def test_signatures_stay_readable() -> None:
    """Editors, documents and type checkers see the arguments."""
    assert list(inspect.signature(ehkafka.Retry).parameters)[:2] == ["attempts", "first_s"]
    assert "on_failure" in inspect.signature(ehkafka.App.handler).parameters
    assert "group" in inspect.signature(ehkafka.App).parameters


def test_names_of_other_libraries_lead_to_ours() -> None:
    """Each alias means something that is there."""
    known = {
        name
        for thing in (
            ehkafka.App.handler,
            ehkafka.App.batch_handler,
            ehkafka.App.stop,
            ehkafka.App,
            ehkafka.DeadLetter,
        )
        for name in inspect.signature(thing).parameters
    }
    assert set(calling.ALIASES.values()) <= known | set(ehkafka.settings.Settings.__dataclass_fields__)


def test_an_option_that_no_handler_has_is_refused_at_once() -> None:
    """Where it is written, before a function is decorated."""
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.embedded(), start="earliest")
    with pytest.raises(ehkafka.errors.ConfigurationError, match="no option 'max_recods': leave it out"):
        app.batch_handler("t", max_recods=1)  # type: ignore[call-arg]
    with pytest.raises(ehkafka.errors.ConfigurationError, match="'deadline_ss': did you mean deadline_s="):
        app.handler("t", deadline_ss=1)  # type: ignore[call-overload]
