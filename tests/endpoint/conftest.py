"""A fake secret, and the search for it in everything that an error or a value can show."""

from __future__ import annotations

import copy
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WINDOW = 6
KEY = "Zk9xQ0+vR3t7/pLmW2dYhB8sJc5uNe1aXg4iTo6rKfw="
CONNECTION_STRING = (
    "Endpoint=sb://unit-test.servicebus.windows.net/;"
    f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}"
)


def _parts(key: str) -> set[str]:
    return {key[start : start + WINDOW] for start in range(max(1, len(key) - WINDOW + 1))}


def _shown(thing: object) -> str:
    """Return all that a log, a debugger, a crash report or a queue would carry of it."""
    calls = [repr(thing), str(thing), f"{thing}"]
    calls += [repr(_or_nothing(view, thing)) for view in (vars, copy.copy, copy.deepcopy, pickle.dumps)]
    if isinstance(thing, BaseException):
        calls += traceback.format_exception(thing)
        for link in _chain(thing):
            calls += [repr(link), str(link), repr(vars(link)), *map(repr, link.args)]
    return " ".join(calls)


def _or_nothing(view: Callable[[Any], object], thing: object) -> object:
    # What has no such view shows nothing in it.
    try:
        return view(thing)
    except (TypeError, AttributeError, pickle.PicklingError):
        return ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all behind it, suppressed contexts too."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        link = waiting.pop()
        if link is not None and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [link.__cause__, link.__context__]


@pytest.fixture(scope="session")
def assert_hidden() -> Callable[..., None]:
    """Fail if any six characters in a row of the key are shown by one of the things."""

    def check(key: str, *things: object) -> None:
        for thing in things:
            # A parser may have lower-cased what it took for a host.
            text = _shown(thing).lower()
            found = [part for part in _parts(key.lower()) if part in text]
            assert not found, f"{len(found)} parts of the key are shown by a {type(thing).__name__}"

    return check


@pytest.fixture(scope="session")
def key() -> str:
    """Return a key that is none."""
    return KEY


@pytest.fixture(scope="session")
def connection_string() -> str:
    """Return a namespace-level connection string with the fake key."""
    return CONNECTION_STRING
