"""A bench for each test of the sender."""

from __future__ import annotations

import pytest

from tests.outputs.sender_bench import Bench


@pytest.fixture(params=[False, True], ids=["claims", "singles"])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Return a bench whose outputs come with claims, and one whose outputs have none yet."""
    return Bench(singles=request.param)
