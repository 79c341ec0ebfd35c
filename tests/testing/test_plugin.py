"""The pytest plugin gives its fixtures to any project that has ehkafka installed."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ehkafka.testing import EmbeddedBrokerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ehkafka.testing import EmbeddedBroker

# pytest loads the package by its own loader, because it brings fixtures: its names must be there, too.
SUITE = """
import ehkafka

seen = []
assert ehkafka.App

def test_uses_the_broker(embedded_broker):
    embedded_broker.create_topic("orders", 3)
    assert embedded_broker.produce("orders", [("a", b"1")]) == 1
    seen.append(embedded_broker)

def test_gets_a_fresh_one(embedded_broker):
    embedded_broker.create_topic("orders", 2)
    assert embedded_broker is not seen[0]
    assert "closed" in repr(seen[0])
"""


def test_a_foreign_suite_gets_a_fresh_broker_per_test(tmp_path: Path) -> None:
    """Without any import or conftest, each test has its own broker, closed after it."""
    (tmp_path / "test_foreign.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_factory_starts_what_the_arguments_say(
    embedded_broker_factory: Callable[..., EmbeddedBroker],
) -> None:
    """Topics and brokers are passed on, and each call is a cluster of its own."""
    one = embedded_broker_factory({"orders": 3}, brokers=2)
    two = embedded_broker_factory()
    assert one.bootstrap.count(":") == 2
    assert two.bootstrap not in one.bootstrap
    one.close()
    with pytest.raises(EmbeddedBrokerError):
        _ = one.bootstrap


def test_the_plugin_module_itself_imports_no_kafka_client() -> None:
    """What every pytest session of a user pays for is pytest alone."""
    source = (
        "import sys, importlib.util as u\n"
        "spec = u.find_spec('ehkafka')\n"
        "path = spec.submodule_search_locations[0] + '/testing/plugin.py'\n"
        "alone = u.spec_from_file_location('plugin_alone', path)\n"
        "module = u.module_from_spec(alone)\n"
        "alone.loader.exec_module(module)\n"
        "assert 'confluent_kafka' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True, timeout=30)
