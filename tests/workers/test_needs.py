"""How long a drain will take, from what the workers took so far."""

from __future__ import annotations

import pytest

from ehkafka.lanes.ending import Work
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.workers.hub import Hub
from ehkafka.workers.rate import Pace


def hub(mean_s: float, pace: Pace | None = None) -> Hub:
    """Return one without workers whose records took so long."""
    made = Hub(Inboxes(1), lambda: 0.0, pace)
    made.inboxes.balance.mean_s = mean_s
    return made


def test_nothing_is_known_before_the_first_record() -> None:
    """Then all fits; a later check corrects it."""
    assert hub(0.0).needs_s(Work(10_000, 100), 1) == 0.0


def test_workers_share_the_records_but_those_of_one_key() -> None:
    """A key's records run one after another, whatever the number."""
    one = hub(0.02)
    assert one.needs_s(Work(400, 10), 8) == pytest.approx(1.0)
    assert one.needs_s(Work(400, 100), 8) == pytest.approx(2.0)


def test_a_rate_limit_is_part_of_it() -> None:
    """Four a second, whatever the workers could do."""
    one = hub(0.02, Pace(4.0, lambda: 0.0))
    assert one.needs_s(Work(40, 1), 8) == pytest.approx(10.0)
