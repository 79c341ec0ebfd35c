"""What tests of `scripts/bench --peers` share."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports one of the modules of `scripts/peers`."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return lambda name: importlib.import_module(f"peers.{name}")
