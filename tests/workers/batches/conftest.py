"""Tests of batches, with keys that are read as records arrive, and only when they are needed."""

from __future__ import annotations

import pytest

from tests.workers.batches.batch_bench import BatchBench


@pytest.fixture(params=["keys read", "keys unread"])
def _keys(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchBench, "leaves_keys_unread", request.param == "keys unread")
