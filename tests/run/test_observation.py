"""What probes say of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.run.observation import not_ready

LOST = "All partitions were lost, and the group has given none back yet."
SILENT = "No broker has answered for 30 s."


@pytest.mark.parametrize(
    ("contact", "reasons"),
    [
        ({}, ()),
        ({"lost_s": 0.0}, (LOST,)),
        ({"lost_s": 2.0, "is_unreachable": True, "silence_s": 30.0}, (SILENT,)),
    ],
    ids=["well", "lost", "lost and cut off"],
)
def test_a_run_without_the_partitions_that_it_had_is_not_ready(
    contact: dict[str, Any], reasons: tuple[str, ...]
) -> None:
    """A standby never had any, and is; where no broker answers, that is the reason."""
    well = {"has_joined": True, "is_unreachable": False, "lost_s": None}
    brokers = SimpleNamespace(contact=SimpleNamespace(**{**well, **contact}))
    ending = SimpleNamespace(is_stopping=False, is_done=False)
    run: Any = SimpleNamespace(ending=ending, context=SimpleNamespace(brokers=brokers))
    assert not_ready(run) == reasons
