"""Whether the mirror's store answers and takes writes, and what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ehkafka
from ehkafka.checkpoints.store_mirror import StoreMirror
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.checks import mirror
from ehkafka.checks.inspection import Inspection
from ehkafka.checks.result import NotMeasured, Problem
from ehkafka.checks.target import Target
from tests.kit.bad_store import BadStore

if TYPE_CHECKING:
    from pathlib import Path

    from ehkafka.checkpoints.stores.store import CheckpointStore


def inspection(store: CheckpointStore | None) -> Inspection:
    """Return the state of a run whose target mirrors there."""
    chosen = None if store is None else StoreMirror(store=store)
    return Inspection(Target(endpoint=ehkafka.Endpoint.kafka("localhost:9092"), mirror=chosen), 1.0)


def test_a_store_that_takes_writes_is_well_with_the_writes_of_a_month_and_the_advice() -> None:
    """259 200 checkpoints and 86 400 owners of one partition in 30 days at most."""
    store = BadStore()
    for _ in range(2):
        found = mirror.mirror(inspection(store), None)
    assert found.facts["writes_per_month_max"] == 259_200 + 86_400
    assert "345,600 writes a month" in found.text
    assert "soft delete" in found.text
    assert [name for name, _ in store.written] == [mirror.OWN_BLOB] * 2


def test_a_store_that_refuses_is_reported_with_the_next_step(tmp_path: Path) -> None:
    """A folder that is missing; a store that is down."""
    with pytest.raises(Problem) as missing:
        mirror.mirror(inspection(FileStore(tmp_path / "missing")), None)
    assert "missing" in missing.value.text
    store = BadStore()
    store.down = True
    with pytest.raises(Problem, match="it is down"):
        mirror.mirror(inspection(store), None)


def test_without_a_mirror_nothing_is_measured() -> None:
    """A target has one or not."""
    with pytest.raises(NotMeasured, match="no mirror"):
        mirror.mirror(inspection(None), None)


def test_the_target_of_an_app_has_its_mirror() -> None:
    """`ehkafka check --app` looks at what the app would use."""
    chosen = StoreMirror(store=BadStore())
    app = ehkafka.App(
        group="g", endpoint=ehkafka.Endpoint.kafka("localhost:9092"), start="earliest", mirror=chosen
    )
    assert Target.of_app(app).mirror is chosen
