"""The home-security page against hostile requests; `run.py` compares what it shows with the ledger."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import check, layout, rules
from home_pipeline.container import CONTAINER, STORAGE, create_container, open_container
from home_pipeline.readings import Reading
from home_pipeline.stage import STATUS, TOKEN, WISHES, Stage, replace_file

from tests.kit import home_screen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.azurite import Azurite

SECRET = "a token of this test"
HOME = "home-000033"
ALARM = Reading(HOME, "smoke", "%", time.time_ns() // 1000, 70.0, alarm=True)


class Served:
    """The page as a process of its own, over a container with one alarm; it can be started again."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.stage = Stage(folder, environment)
        self.address = ""

    def start(self) -> None:
        """Start it, on a port that it may not have had before."""
        self.address = home_screen.serve(self.stage, 1, "--folder", str(self.folder))


@pytest.fixture(scope="module")
def served(azurite: Azurite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return the page, which must end well."""
    named = {STORAGE: azurite.connection_string(), CONTAINER: f"page-{secrets.token_hex(6)}"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in named.items():
            patch.setenv(name, value)
        with open_container() as container:
            create_container(container)
            rows = layout.rows_of([ALARM], rules.Windows())
            container.upload_blob("local/readings/00000/00000000000000000000.jsonl", layout.encode(rows))
    page = Served(tmp_path_factory.mktemp("page"), os.environ | named | {TOKEN: SECRET})
    try:
        page.start()
        yield page
        assert page.stage.stop("page") == 0
    finally:
        page.stage.stop_all()


@pytest.fixture
def address(served: Served) -> str:
    """Return where the page is served."""
    return served.address


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
    """Another host's name (DNS rebinding) and methods that would change what is only read are refused."""
    assert asked(address, "/api/overview", host="evil.example")[0] == 400
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert asked(address, "/api/overview", method=method)[0] == 405
    for path in ("/api/acknowledge", "/api/actions/sell"):
        assert asked(address, path)[0] == 405


@pytest.mark.parametrize(
    "query",
    [
        *(
            "alarms?home=home-33",
            "alarms?kind=%27",
            "alarms?state=closed",
            "alarms?limit=-1",
            "alarms?limit=9e9",
        ),
        *("overview?hours=-1", "overview?hours=nan", "home/home-000033?hours=%31%30%30"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused(address: str, query: str) -> None:
    """In words; nothing of the question is sent back."""
    status, _, body = asked(address, f"/api/{query}")
    assert status == 400
    assert json.loads(body)["error"]


@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (401, {"authorization": ""}),
        (401, {"authorization": "Bearer a token of another"}),
        (401, {"authorization": SECRET}),
        (401, {"authorization": "Bearer \xff"}),
        (403, {"origin": "http://evil.example"}),
        (403, {"origin": "null"}),
        (403, {"origin": ""}),
        (400, {"content-type": "text/plain"}),
    ],
)
def test_nothing_is_changed_without_the_token_and_our_own_page(
    address: str, status: int, changed: dict[str, str]
) -> None:
    """A wrong token, another site's page, or a form: each is refused, in words, and nothing happens."""
    body = json.dumps({"home": HOME, "kind": "smoke", "up_to_s": ALARM.at_us / 1e6})
    for path in ("/api/acknowledge", "/api/actions/sell"):
        found, _, words = asked(address, path, method="POST", body=body, **(may_act(address) | changed))
        assert found == status
        assert json.loads(words)["error"]
    assert check.ask(address, "/api/alarms")["open"] == 1


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"7", b"\xff", b"[" * 4_000, b'{"home": "' + b"x" * 5_000 + b'"}'),
        *(
            json.dumps({"home": HOME, "kind": "smoke", "up_to_s": 1.0} | wrong).encode()
            for wrong in (
                *({"home": "home-33"}, {"home": 33}, {"home": None}, {"kind": "'"}, {"kind": ["smoke"]}),
                *({"up_to_s": "1"}, {"up_to_s": True}, {"up_to_s": -1}, {"up_to_s": 1e300}),
                *({"up_to_s": float("nan")}, {"up_to_s": float("inf")}),
            )
        ),
    ],
)
def test_a_body_that_is_none_is_refused(address: str, body: bytes) -> None:
    """Too long, no JSON, or values that cannot be: 400 and words."""
    status, _, words = asked(address, "/api/acknowledge", method="POST", body=body, **may_act(address))
    assert status == 400
    assert json.loads(words)["error"]


def test_an_acknowledgement_outlives_the_page(served: Served) -> None:
    """Its process is started again and reads the blobs anew: the alarm is still acknowledged."""
    body = json.dumps({"home": HOME, "kind": "smoke", "up_to_s": ALARM.at_us / 1e6})
    before = check.ask(served.address, f"/api/home/{HOME}")
    assert (before["state"], before["open_alarms"]) == ("alarm", 1)
    may = may_act(served.address)
    status, _, found = asked(served.address, "/api/acknowledge", method="POST", body=body, **may)
    assert (status, json.loads(found)) == (200, {"acknowledged": 1})
    [acknowledged] = check.ask(served.address, "/api/alarms")["alarms"]
    assert acknowledged["at_s"] == ALARM.at_us / 1e6
    assert served.stage.stop("page") == 0
    served.start()
    after = check.ask(served.address, f"/api/home/{HOME}")
    assert after["alarms"] == [acknowledged]
    assert acknowledged["acknowledged_at_s"] >= ALARM.at_us / 1e6
    assert after["open_alarms"] == 0
    assert check.ask(served.address, "/api/alarms?state=open")["alarms"] == []


def test_what_the_demo_can_do_is_offered_once(served: Served) -> None:
    """Without the demo nothing; with it each wish goes into its folder, and is refused from then on."""
    may = may_act(served.address)

    def wish(what: str) -> tuple[int, dict[str, str]]:
        status, _, body = asked(served.address, f"/api/actions/{what}", method="POST", body="{}", **may)
        return status, json.loads(body)

    def offered() -> dict[str, bool]:
        actions = check.ask(served.address, "/api/overview")["pipeline"]["actions"]
        assert all(one["can"] == (one["why"] is None) for one in actions.values())
        return {what: one["can"] for what, one in actions.items()}

    assert offered() == {"second": False, "sell": False}
    assert wish("sell")[0] == 409
    status = {"engine": "spark", "state": "starting", "since_s": 5.0, "step": "one", "restarts": 2}
    replace_file(served.folder / STATUS, status | {"done": {}, "members": {}})
    pipeline = check.ask(served.address, "/api/overview")["pipeline"]
    assert {name: pipeline[name] for name in status} == status
    assert offered() == {"second": False, "sell": True}
    replace_file(served.folder / STATUS, status | {"engine": "local", "done": {}, "members": {}})
    assert offered() == {"second": True, "sell": True}
    for what in ("second", "sell"):
        assert wish(what)[0] == 200
        assert wish(what)[0] == 409
    assert {*json.loads((served.folder / WISHES).read_text())} == {"second", "sell"}
    assert wish("anything")[0] == 404


Answer = tuple[int, Any, bytes]


def may_act(address: str) -> dict[str, str]:
    """Return the headers of a request that may change something."""
    headers = {"authorization": f"Bearer {SECRET}", "content-type": "application/json"}
    return headers | {"origin": f"http://{address}"}


def asked(
    address: str,
    path: str,
    *,
    method: str = "GET",
    host: str | None = None,
    body: str | bytes | None = None,
    **headers: str,
) -> Answer:
    """Return the status, headers and body of an answer; the address goes out as it is."""
    connection = http.client.HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, body, {"Host": host or address} | headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()
