"""Errors of the connection: how often `on_error` hears of them, and how long health tells of them."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from ehkafka.run.connection import LASTS_S, ON_ERROR_SPACING_S, PROOFS_AFTER_S, ConnectionErrors
from tests.kit.clock import VirtualClock

REFUSED = KafkaError(KafkaError._AUTHENTICATION, "SharedAccessKey=hunter2hunter2 is wrong")
DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN)


@pytest.fixture
def reported() -> list[KafkaError]:
    """Return what the user's code heard."""
    return []


@pytest.fixture
def clock() -> VirtualClock:
    """Return the clock of the errors."""
    return VirtualClock()


@pytest.fixture
def errors(clock: VirtualClock, reported: list[KafkaError]) -> ConnectionErrors:
    """Return the errors of one app."""
    return ConnectionErrors(clock.now_s, reported.append)


def test_the_same_error_three_times_a_second_reaches_on_error_every_few_seconds(
    errors: ConnectionErrors, clock: VirtualClock, reported: list[KafkaError]
) -> None:
    """A minute of an expired token is a dozen calls, not 180; another error is reported at once."""
    for _ in range(180):
        errors.on_error(REFUSED)
        clock.advance(1 / 3)
    assert len(reported) == pytest.approx(60 / ON_ERROR_SPACING_S, abs=1)
    before = len(reported)
    errors.on_error(DOWN)
    assert reported[before:] == [DOWN]


def test_health_names_a_refusal_while_it_lasts(errors: ConnectionErrors, clock: VirtualClock) -> None:
    """The error with its usual cause, without a key; gone when it is not repeated any more."""
    errors.on_error(DOWN)
    assert errors.problem is None, "it names no cause"
    errors.on_error(REFUSED)
    clock.advance(LASTS_S - 1)
    errors.on_error(REFUSED)
    clock.advance(LASTS_S - 1)
    problem = errors.problem
    assert problem is not None
    assert "_AUTHENTICATION" in problem
    assert "did not accept the credential" in problem
    assert "hunter2" not in problem
    clock.advance(2)
    assert errors.problem is None


def test_a_record_a_commit_or_a_new_connection_ends_the_problem(errors: ConnectionErrors) -> None:
    """Not what was there when the error came; the next error begins it again."""
    for proof in ((8, 3), (7, 4), (7, 3, 1.0)):
        errors.on_error(REFUSED)
        for _ in range(3):
            errors.check(7, 3, -1.0)
            assert errors.problem is not None
        errors.check(*proof)
        assert errors.problem is None


def test_an_answer_is_asked_for_a_few_times_after_the_last_error(
    errors: ConnectionErrors, clock: VirtualClock
) -> None:
    """Not while all is well, not at once, and not for ever; the next error begins it again."""
    assert not errors.wants_proof()
    for _ in range(2):
        errors.on_error(REFUSED)
        asked_s = []
        for tenth in range(1, 201):
            clock.advance(0.1)
            if errors.wants_proof():
                asked_s.append(tenth / 10)
        assert asked_s == pytest.approx(PROOFS_AFTER_S, abs=0.11)
    errors.on_error(REFUSED)
    errors.check(1, 1)
    errors.check(2, 1)
    clock.advance(5.0)
    assert not errors.wants_proof()
