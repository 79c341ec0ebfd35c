"""Each example runs as its docstring says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.testing import EmbeddedBroker

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", ["examples/home_security/app.py", "examples.home_security.app:app"])
def test_home_security_raises_alarms_with_its_own_broker(
    path: str, start_example: Callable[..., Any]
) -> None:
    """It needs nothing but the package; handled in order, its readings always raise as many alarms."""
    example = start_example(path)
    example.wait_until(lambda text: text.count("ALARM home-") >= 1342)
    log = example.stop()
    assert "the door was opened (readings[" in log
    assert "home-security: 1000 homes, 1342 alarms" in log.splitlines()[-1]


def test_home_security_reads_another_broker(start_example: Callable[..., Any]) -> None:
    """With EHKAFKA_BOOTSTRAP it watches the homes there; smoke is an alarm in any house."""
    with EmbeddedBroker({"readings": 4}) as broker:
        broker.produce("readings", [("home-1", b'{"home": "home-1", "kind": "smoke", "value": 0.95}')])
        example = start_example("examples/home_security/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap)
        example.wait_until(lambda text: "ALARM" in text)
        assert "ALARM home-1: smoke 0.95 (readings[" in example.stop()


def test_the_managed_identity_example_is_short() -> None:
    """Twelve lines, the docstring included."""
    lines = (ROOT / "examples/managed_identity/app.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 12


def test_the_readme_shows_the_managed_identity_example_as_it_is() -> None:
    """What a newcomer copies from the README is what these tests ran."""
    example = ROOT / "examples/managed_identity/app.py"
    assert example.read_text().strip() in (ROOT / "README.md").read_text()
