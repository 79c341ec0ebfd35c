"""The store keeps to what every checkpoint store keeps to: `pytest test_store.py` in this folder."""

from pathlib import Path

import pytest
from store import SqliteStore  # type: ignore[import-not-found]

from ehkafka.testing import CheckpointStoreSuite


class TestSqliteStore(CheckpointStoreSuite):
    """The suite brings the tests."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        """Return a new store for each test."""
        return SqliteStore(str(tmp_path / "checkpoints.db"))
