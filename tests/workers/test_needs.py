"""How long a drain will take, from what the workers took so far."""

from __future__ import annotations

import pytest

from ehkafka.lanes.cuts import Work
from ehkafka.lanes.dispatcher import Dispatcher
from ehkafka.workers.exchange import MEAN_RECORDS, QUICK_S, Exchange
from ehkafka.workers.rate import Pace


def exchange(pace: Pace | None = None) -> Exchange:
    """Return one without workers."""
    return Exchange(Dispatcher(), lambda: 0.0, pace)


def test_nothing_is_known_before_the_first_record() -> None:
    """Then all fits; a look later corrects it."""
    assert exchange().needs_s(Work(10_000, 100), 1) == 0.0


def test_the_first_records_are_the_mean_and_later_ones_move_it() -> None:
    """A handler that became ten times slower is known after some hundred records."""
    one = exchange()
    one.note_work(0.01, 1)
    assert one.mean_s == pytest.approx(0.01)
    for _ in range(3 * MEAN_RECORDS):
        one.note_work(0.1, 1)
    assert 0.09 < one.mean_s < 0.1
    one.note_work(0.0, 0)  # a turn in which every lane was cut
    one.note_work(MEAN_RECORDS * 0.5, MEAN_RECORDS)
    assert one.mean_s == pytest.approx(0.5)


def test_workers_share_the_records_but_for_quick_handlers() -> None:
    """Quick ones run one after another; a lane does so always."""
    one = exchange()
    one.note_work(0.02, 1)
    assert one.needs_s(Work(400, 10), 8) == pytest.approx(1.0)
    assert one.needs_s(Work(400, 100), 8) == pytest.approx(2.0)
    quick = exchange()
    quick.note_work(QUICK_S / 2, 1)
    assert quick.needs_s(Work(100_000, 1), 8) == pytest.approx(100_000 * QUICK_S / 2)


def test_a_rate_limit_is_part_of_it() -> None:
    """Four a second, whatever the workers could do."""
    one = exchange(Pace(4.0, lambda: 0.0))
    one.note_work(0.02, 1)
    assert one.needs_s(Work(40, 1), 8) == pytest.approx(10.0)
