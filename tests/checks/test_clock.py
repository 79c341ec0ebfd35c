"""What stamps of others prove about our clock, and what they do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import ehkafka
from ehkafka.checks import login
from ehkafka.checks.inspection import Inspection
from ehkafka.checks.result import NotMeasured, Problem
from ehkafka.checks.target import Target


def inspection(token_age_s: float | None) -> Inspection:
    """Return the state of a run that saw a token of this age, and no records."""
    found = Inspection(Target(endpoint=ehkafka.Endpoint.kafka("localhost:9092")), 1.0)
    if token_age_s is not None:
        found.token_issued_at = datetime.now(UTC) - timedelta(seconds=token_age_s)
    return found


def test_a_stamp_from_our_future_proves_that_we_are_behind() -> None:
    """No client can stamp later than now: our clock is behind by that much at least."""
    with pytest.raises(Problem) as problem:
        login.clock(inspection(-60.0), None)
    assert "behind" in problem.value.text
    assert "NTP" in problem.value.fix


def test_an_old_stamp_bounds_how_far_ahead_we_are() -> None:
    """A stamp in our past proves no more than that."""
    assert "at most 30 s ahead" in login.clock(inspection(30.0), None).text


def test_seconds_cut_off_are_no_proof() -> None:
    """Tokens are stamped in whole seconds."""
    assert login.clock(inspection(-1.0), None).facts["newest_stamp_age_s"] < 0


def test_without_a_stamp_nothing_is_said() -> None:
    """A number is not invented."""
    with pytest.raises(NotMeasured, match="brokers do not report their time"):
        login.clock(inspection(None), None)
