"""The home-security pipeline's alerts: one for each alarm, in the order of its home; and who judges that."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from home_pipeline import simulate
from home_pipeline.alert_check import compare_alerts, judge, read_alerts
from home_pipeline.alerts import make_app
from home_pipeline.ledger import MINUTE_US, read_ledger

import ehkafka
from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pathlib import Path


def test_each_alarm_has_an_alert_in_its_homes_order(tmp_path: Path) -> None:
    """Of thousands of readings, some spoilt: exactly the ledger's alarms, and each once."""
    ledger_file = tmp_path / "ledger.json"
    with EmbeddedBroker({"readings": 16, "alerts": 4}) as broker:
        given = ["--bootstrap", broker.bootstrap, "--ledger", str(ledger_file), "--homes", "50"]
        given += ["--count", "20000", "--rate", "500", "--new-sensor-after-s", "5"]
        given += ["--begin-us", str(MINUTE_US * 29_000_000)]
        simulate.simulate(simulate.arguments().parse_args(given), SimpleNamespace())  # type: ignore[arg-type]
        make_app(ehkafka.Endpoint.kafka(broker.bootstrap)).run(until="caught_up")
        found, wrong = compare_alerts(read_ledger(ledger_file), broker.bootstrap, 0.0)
        assert wrong == []
        assert len(read_alerts(broker.bootstrap)) == found > 10


@pytest.mark.parametrize(
    ("offsets", "found", "wrong"),
    [
        ("1 5 7", 3, ""),
        ("1 5 7 1 5 7 9", 4, ""),
        ("1 5 5 7", 3, ""),
        ("1 7 5", 3, "late"),
        ("1 5 1 7", 3, "late"),
        ("1 5 7 1 7", 3, "others of its home did not"),
    ],
)
def test_alerts_may_come_again_as_whole_stretches_alone(offsets: str, found: int, wrong: str) -> None:
    """A repeat goes back to an earlier one and on from there; nothing is passed over."""
    other = [("home-000002", f"readings[3]@{offset}") for offset in (2, 4)]
    alerts = [("home-000001", f"readings[3]@{offset}") for offset in offsets.split()]
    count, said = judge([other[0], *alerts, other[1]])
    assert count == found + 2
    assert [wrong in one for one in said] == ([True] if wrong else [])
