"""The example of an own checkpoint store keeps to the suite, and an app mirrors into it."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.testing import EmbeddedBroker
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.checkpoints import CheckpointStore

FOLDER = Path(__file__).parents[2] / "examples/own_store"


def test_the_store_passes_the_suite(tmp_path: Path) -> None:
    """All of it is collected and passes, by the example's own test file."""
    shutil.copytree(FOLDER, tmp_path / "own_store")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_store.py"]
    where = tmp_path / "own_store"
    ended = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=60)
    assert "10 passed" in ended.stdout, ended.stdout + ended.stderr


def test_the_app_mirrors_into_its_file(start_example: Callable[..., Any], tmp_path: Path) -> None:
    """Another process reads there how far the group is."""
    spec = importlib.util.spec_from_file_location("own_store", FOLDER / "store.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    file = str(tmp_path / "checkpoints.db")
    store: CheckpointStore = module.SqliteStore(file)

    def mirrored() -> str | None:
        blob = store.read("home/readings/own-store/checkpoint/0")
        return None if blob is None else blob.metadata["sequencenumber"]

    with EmbeddedBroker({"readings": 1}) as broker:
        broker.produce("readings", [("home-1", b"21.5")] * 3)
        example = start_example(
            "examples/own_store/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap, CHECKPOINTS=file
        )
        wait_until(lambda: mirrored() == "2", timeout_s=30.0)
        example.stop()
