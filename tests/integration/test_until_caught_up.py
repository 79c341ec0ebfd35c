"""Runs that end once they have caught up, on a real broker: transactions, quotas, logs without records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from tests.integration.test_control_records import RECORDS, TAKEN, transact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker


@pytest.fixture
def open_transaction(narrow: Any) -> Iterator[Callable[[], None]]:
    """Return what leaves a transaction open behind everything that is there; it is aborted with the test."""
    name = f"{narrow.topic}-open"
    producer = Producer(
        {"bootstrap.servers": narrow.broker.bootstrap, "transactional.id": name, "log_level": 0}
    )
    producer.init_transactions(20.0)

    def begin() -> None:
        producer.begin_transaction()
        producer.produce(narrow.topic, b"x", b"open", partition=0)
        producer.flush(20.0)

    yield begin
    producer.abort_transaction(20.0)


@pytest.mark.parametrize("endings", ["c", "a", "caa"])
def test_the_markers_behind_transactions_are_passed(narrow: Any, endings: str) -> None:
    """Offsets that hold no record are left of the log: the run reaches its end, and commits it."""
    transact(narrow, endings)
    seen: list[int] = []
    app = narrow.app(lambda record: seen.append(record.offset()))
    app.run(until="caught_up", settle_s=20.0)
    assert len(seen) == RECORDS * endings.count("c")
    assert narrow.committed() == {0: TAKEN * len(endings)}


def test_an_open_transaction_is_not_waited_for(narrow: Any, open_transaction: Callable[[], None]) -> None:
    """The end is that of the last finished one; no consumer may read what is behind it yet."""
    transact(narrow, "c")
    open_transaction()
    app = narrow.app()
    app.run(until="caught_up", settle_s=20.0)
    assert app.snapshot().finished_records == RECORDS
    assert narrow.committed() == {0: TAKEN}


def test_an_end_that_retention_has_passed_is_reached(narrow: Any) -> None:
    """A log whose records are all gone is caught up, with a commit and without one."""
    transact(narrow, "c")
    narrow.broker.delete_records(narrow.topic, 0, TAKEN)
    app = narrow.app(on_out_of_range="earliest")
    app.run(until="caught_up", settle_s=20.0)
    assert app.snapshot().finished_records == 0
