"""The classes that are kept for brokers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit import broker_classes

if TYPE_CHECKING:
    from ehkafka.testing.kafka.broker import KafkaBroker


def test_a_running_broker_has_taken_them(kafka: KafkaBroker) -> None:
    """Java maps the file; one that it does not take would cost time, and no test would fail."""
    path = broker_classes.kept_classes()
    if path is None or not path.exists():
        pytest.skip("no classes are kept: python -m tests.kit.broker_classes")
    assert str(path) in Path(f"/proc/{kafka.pid}/maps").read_text()
