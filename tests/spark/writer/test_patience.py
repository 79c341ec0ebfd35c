"""How long a task waits for a broker that writes nothing, and what its log shows meanwhile."""

from __future__ import annotations

import logging

import pytest

from ehkafka.errors import EndpointError
from ehkafka.events import ClientLogged, ConnectionProblem, CredentialRotated, Throttled
from ehkafka.spark.writer.sending import Patience, TooLateError


class Clock:
    """Seconds that a test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return them."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def waiting(clock: Clock, timeout_s: float = 120.0) -> Patience:
    """Return the patience of a task that begins now."""
    patience = Patience(clock)
    patience.timeout_s = timeout_s
    patience.moved()
    return patience


def test_a_line_every_ten_seconds_names_the_last_reason(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Not one for each thing that the client tells; a task that ends in time was worth none."""
    patience = waiting(clock)
    for second in range(26):
        clock.now_s = 100.0 + second
        patience.take(Throttled("b1", 1.5))
        patience.check("3 rows wait")
    ten, twenty = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert ten.startswith(
        "3 rows wait for the broker, which has written nothing for 10 s: Throttled: b1 delays its answers by"
    )
    assert twenty == ten.replace("10 s", "20 s")


def test_only_silence_counts(clock: Clock) -> None:
    """However slow the broker is: while it writes, a task waits."""
    patience = waiting(clock, 30.0)
    for _ in range(10):
        clock.now_s += 29
        patience.check("3 rows wait")
        patience.moved()
    clock.now_s += 30
    with pytest.raises(TooLateError, match=r"for 30 s: it does not answer\. Spark tries the task again"):
        patience.check("3 rows wait")


def test_a_refused_credential_ends_it_sooner_unless_the_broker_writes_again(clock: Clock) -> None:
    """A rotated key is taken up within seconds; a wrong one is refused for ever."""
    patience = waiting(clock)
    refused = ConnectionProblem("_AUTHENTICATION", "rows: _AUTHENTICATION (no): check it", fatal=False)
    for _ in range(3):
        clock.now_s += 1
        patience.take(refused)
    patience.moved()
    clock.now_s += 60
    patience.check("3 rows wait")
    patience.take(refused)
    clock.now_s += 9
    patience.take(refused)
    patience.check("3 rows wait")
    clock.now_s += 1
    with pytest.raises(EndpointError) as ended:
        patience.check("3 rows wait")
    assert not isinstance(ended.value, TooLateError)
    assert str(ended.value) == (
        "3 rows wait for a broker that refuses the credential: _AUTHENTICATION (no): check it."
    )


def test_only_warnings_are_reasons(clock: Clock) -> None:
    """What the client writes for itself is for its developers."""
    patience = waiting(clock)
    patience.take(ClientLogged(3, "a line"))
    patience.take(CredentialRotated("a file"))
    clock.now_s += 120
    with pytest.raises(TooLateError, match="for 120 s: it does not answer"):
        patience.check("3 rows wait")
