"""What an app shows of records that are finished and not committed, since their transaction does not end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.metrics import Collector
from tests.integration.sent import TIMEOUT_S
from tests.kit.metrics import Shown
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker
RECORDS = 3_000


def test_what_is_not_committed_is_in_the_lag_and_counted(answering: Callable[[str], Any]) -> None:
    """Readers have none of it and a restart would handle it again, so it is neither done nor away."""
    one = answering("exactly once")
    one.produce(RECORDS)
    one.proxy.hold_transactions()
    app = one.made()
    shown = Shown(Collector(app))
    app.start()
    wait_until(lambda: app.snapshot().finished_records == RECORDS, timeout_s=TIMEOUT_S)
    wait_until(lambda: app.snapshot().lag_records is not None, timeout_s=TIMEOUT_S)

    def numbers() -> tuple[int | None, int | None]:
        snapshot = app.snapshot()
        return snapshot.lag_records, snapshot.unacknowledged_outputs

    wait_until(lambda: numbers() == (RECORDS, RECORDS), timeout_s=10.0)
    must_stay(lambda: numbers() == (RECORDS, RECORDS), for_s=1.0)
    assert shown.value("ehkafka_unacknowledged_outputs") == RECORDS
    picture = app.snapshot()
    assert [one.watermark for one in picture.partitions] == [0] * len(picture.partitions)
    assert all(one.oldest is not None and one.oldest.offset == 0 for one in picture.partitions)
    one.proxy.release_transactions()
    one.stage.wait_until_committed(one.load.ends)
    wait_until(lambda: numbers() == (0, 0))
    assert shown.value("ehkafka_unacknowledged_outputs") == 0
    app.stop()
    one.judge(without=set(), repeats_max=0)
