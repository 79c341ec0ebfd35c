"""What failure policies must not lead to together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.errors import ConfigurationError
from ehkafka.recovery.policy import DeadLetter, Hold, Stop
from ehkafka.recovery.retry import NO_RETRY, Retry
from ehkafka.recovery.wiring import check_recovery


def handler(name: str, on_failure: Any, retry: Any = NO_RETRY) -> Any:
    """Return a handler of the topic of its name."""
    return SimpleNamespace(name=name, topics=(name,), on_failure=on_failure, retry=retry)


def test_letters_in_a_circle_are_refused_however_long_it_is() -> None:
    """The way is named; a handler that only leads into the circle is not in it."""
    ways = {"in": "a", "a": "b", "b": "c", "c": "a"}
    handlers = [handler(name, DeadLetter(to)) for name, to in ways.items()]
    with pytest.raises(ConfigurationError, match=r"circle: a → b → c → a\."):
        check_recovery(handlers, "pause_partition")


def test_a_chain_of_letters_that_ends_is_fine() -> None:
    """A topic of dead letters may have a handler, whose own letters go elsewhere."""
    check_recovery([handler("a", DeadLetter("b")), handler("b", DeadLetter("x"))], "stop")
    check_recovery([handler("a", DeadLetter(print)), handler("b", Stop())], "stop")


@pytest.mark.parametrize(
    ("on_failure", "retry", "is_refused"),
    [
        (Stop(), NO_RETRY, False),
        (Stop(), Retry(), True),
        (Hold(), NO_RETRY, True),
        (DeadLetter("dead"), Retry(), False),
        (DeadLetter(print), lambda *_: 1.0, False),
        (Stop(), lambda *_: 1.0, True),
    ],
)
def test_parked_keys_need_a_way_out(on_failure: Any, retry: Any, is_refused: bool) -> None:
    """Only where they are to go to the dead letters."""
    handlers = [handler("a", on_failure, retry)]
    check_recovery(handlers, "pause_partition")
    if is_refused:
        with pytest.raises(ConfigurationError, match=r"'a' has no dead-letter topic.*on_failure=DeadLetter"):
            check_recovery(handlers, "dead_letter")
    else:
        check_recovery(handlers, "dead_letter")
