"""A fake secret, and the search for it in everything that an error can show."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 6
KEY = "Zk9xQ0+vR3t7/pLmW2dYhB8sJc5uNe1aXg4iTo6rKfw="
CONNECTION_STRING = (
    "Endpoint=sb://unit-test.servicebus.windows.net/;"
    f"SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={KEY}"
)


def _parts(key: str) -> set[str]:
    return {key[start : start + WINDOW] for start in range(max(1, len(key) - WINDOW + 1))}


def _shown(thing: object) -> str:
    if not isinstance(thing, BaseException):
        return f"{thing!r} {thing!s}"
    links, link = [], thing
    while link is not None:
        links += [repr(link), str(link), *map(repr, link.args)]
        link = link.__cause__ or link.__context__
    return " ".join([*links, *traceback.format_exception_only(thing)])


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
