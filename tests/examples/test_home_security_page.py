"""The home-security page against hostile addresses; `run.py` compares what it shows with the ledger."""

from __future__ import annotations

import http.client
import os
import secrets
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import screen
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.azurite import Azurite


@pytest.fixture(scope="module")
def address(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where the page is served, as a process of its own, over an empty container."""
    named = {STORAGE: azurite.connection_string(), CONTAINER: f"page-{secrets.token_hex(6)}"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        with open_container() as container:
            create_container(container)
    stage = Stage(tmp_path_factory.mktemp("page"), os.environ | named)
    try:
        yield screen.serve(stage, 0)
        assert stage.stop("page") == 0
    finally:
        stage.stop_all()


@pytest.mark.parametrize(
    "path",
    [
        "/api/home/home-00004",
        "/api/home/home-0000422",
        "/api/home/home-000042%0a",
        "/api/home/home-%D9%A0%D9%A0%D9%A0%D9%A0%D9%A4%D9%A2",
        "/api/home/home-000042'%20or%20'1'='1",
        "/api/home/..%2f..%2foverview",
        "/home/" + "x" * 5000,
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/api",
    ],
)
def test_a_hostile_address_finds_nothing(address: str, path: str) -> None:
    """Not found, nothing of the address is sent back, and the policy stands on errors, too."""
    status, headers, body = asked(address, path)
    assert status == 404
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert b"000042" not in body


def test_the_server_answers_its_own_names_and_reads_alone(address: str) -> None:
    """Another host's name (DNS rebinding) and every method that would change something are refused."""
    assert asked(address, "/api/overview", host="evil.example")[0] == 400
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert asked(address, "/api/overview", method=method)[0] == 405


Answer = tuple[int, Any, bytes]


def asked(address: str, path: str, *, method: str = "GET", host: str | None = None) -> Answer:
    """Return the status, headers and body of an answer; the address goes out as it is."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, headers={"Host": host or address})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()
