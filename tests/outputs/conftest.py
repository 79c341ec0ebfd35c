"""A bench for each test of the sender."""

from __future__ import annotations

import pytest

from tests.outputs.sender_bench import Bench


@pytest.fixture
def bench() -> Bench:
    """Return a bench."""
    return Bench()
