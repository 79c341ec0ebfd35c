"""The error that a supervisor ends with when its members have: theirs, with their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka import errors
from ehkafka.errors import (
    ConfigurationError,
    EhkafkaError,
    EndpointError,
    EngineError,
    FencedError,
    UnfinishedError,
)
from ehkafka.wording import ended
from ehkafka.workers.processes.link import how_it_ended

if TYPE_CHECKING:
    from collections.abc import Mapping

# For who ended without a word.
_BY_CODE: Mapping[int, type[EhkafkaError]] = {
    kind.exit_code: kind
    for kind in (EhkafkaError, ConfigurationError, EndpointError, UnfinishedError, FencedError, EngineError)
}


def failure_of(number: int, exit_code: int, farewell: Mapping[str, Any] | None) -> EhkafkaError:
    """Return what a member's end means for the supervisor."""
    return _error(_kind(exit_code, farewell), f"Member {number}: {_text(exit_code, farewell)}")


def described(exit_code: int, farewell: Mapping[str, Any] | None) -> str:
    """Return how a process has ended, for a line of the log."""
    how = how_it_ended(exit_code)
    return how if farewell is None else f"{how}: {_text(exit_code, farewell)}"


def _text(exit_code: int, farewell: Mapping[str, Any] | None) -> str:
    if farewell is None:
        return f"it ended by {how_it_ended(exit_code)}."
    at = f" (raised in {farewell['place']})" if farewell["place"] else ""
    return ended(f"{farewell['text'].removesuffix('.')}{at}")


def _kind(exit_code: int, farewell: Mapping[str, Any] | None) -> type[EhkafkaError]:
    named = getattr(errors, farewell["kind"], None) if farewell is not None else None
    if isinstance(named, type) and issubclass(named, EhkafkaError) and named.exit_code == exit_code:
        return named
    # What was killed has left something.
    return _BY_CODE.get(exit_code, UnfinishedError if exit_code < 0 else EngineError)


def _error(kind: type[EhkafkaError], text: str) -> EhkafkaError:
    return kind(text)
