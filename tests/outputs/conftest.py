"""A bench for each test of the sender."""

from __future__ import annotations

import pytest

from tests.outputs.sender_bench import WAYS, Bench


@pytest.fixture(params=WAYS)
def bench(request: pytest.FixtureRequest) -> Bench:
    """Return a bench for each way in which outputs come; each one is reported."""
    return Bench(way=request.param, reports="each")


@pytest.fixture
def bundled() -> Bench:
    """Return a bench whose outputs come in bundles, and whose batches are reported as a whole."""
    return Bench(way="bundles")


@pytest.fixture
def reported() -> Bench:
    """Return one each of whose outputs is reported."""
    return Bench(way="bundles", reports="each")
