"""The contract with the versions of requests that an Event Hubs namespace offers, and no others.

A part of it on each run. All of it: `EHKAFKA_VERSIONS=namespace python -m pytest -n 4 tests/contract`.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys

import pytest

from ehkafka.embedded.broker import EmbeddedBroker
from tests.kit.namespace_versions import NAMESPACE, offer_namespace_versions
from tests.kit.pages import ROOT

# Lives and stops, commits, and outputs, whose producers ask for ids.
PART = ("test_endings.py", "test_app_commits.py", "test_output_refusals.py")
# Its five seconds are spent on slow answers, which have the same version.
SLOW = "tests/contract/test_app_commits.py::test_with_slow_commits_one_is_in_flight_and_handlers_go_on"


def test_the_stand_in_offers_no_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own answer to ApiVersions 0: each within a namespace's, none of another type."""
    offer_namespace_versions(monkeypatch)
    with EmbeddedBroker({"t": 1}) as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port)), 10.0) as connection:
            connection.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
            answer = connection.makefile("rb")
            body = answer.read(int.from_bytes(answer.read(4), "big"))
    (count,) = struct.unpack_from(">i", body, 6)
    found = {key: bounds for key, *bounds in struct.iter_unpack(">hhh", body[10 : 10 + 6 * count])}
    wide = [
        key for key, (oldest, newest) in found.items() if key not in NAMESPACE or newest > NAMESPACE[key][1]
    ]
    assert (found[1], found[3], found[8], found[22]) == ([4, 6], [0, 5], [0, 8], [0, 1])
    assert wide == []


@pytest.mark.timeout(110)
def test_a_part_of_the_contract_holds(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every test of these files passes as it does on newer brokers."""
    part = [f"tests/contract/{name}" for name in PART]
    folder = ("--basetemp", str(tmp_path_factory.mktemp("part") / "tests"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "4"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    ended = subprocess.run(
        [*command, "--deselect", SLOW, *folder, *part],
        cwd=ROOT,
        env=environment | {"EHKAFKA_VERSIONS": "namespace"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-4_000:]
