"""Probes and actions of a running app over HTTP: what fails when, and what must not."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import starlette.applications
import starlette.routing

import ehkafka
from ehkafka.events import AppStarted, HttpServing
from ehkafka.http import Http
from ehkafka.intake.contact import Statistics
from tests.contract.asking import TOKEN, ask
from tests.contract.in_loop import until
from tests.kit.inside import inside, port_of
from tests.kit.waiting import must_stay, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable


class Site:
    """An app with a server on a port of its own."""

    def __init__(self, app: Any) -> None:
        self.app = app

    def ask(self, path: str, body: Any = None, token: str | None = None) -> tuple[int, Any]:
        """Return status and JSON, or text."""
        own = {} if token is None else {"authorization": f"Bearer {token}"}
        status, answer, headers = ask(port_of(self.app), path, body, **own)
        return status, json.loads(answer or b"null") if "application/json" in headers else answer.decode()

    def status(self, path: str) -> int:
        """Return the status alone."""
        return self.ask(path)[0]


@pytest.fixture
def site(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Site]:
    """Return what makes an app with a server; it is not started yet."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)

    def make(*handler: Any, **options: Any) -> Site:
        return Site(lab.app(*handler, http="127.0.0.1:0", **options))

    return make


def test_all_probes_turn_green_and_the_address_is_reported(site: Any, recorder: Any, events: Any) -> None:
    """Once the group is joined; after the stop no server listens."""
    one = site(recorder)
    one.app.start()
    wait_until(lambda: one.status("/startup") == 200)
    assert [one.status(path) for path in ("/live", "/ready", "/health")] == [200, 200, 200]
    wait_until(lambda: events.of(HttpServing))
    port = port_of(one.app)
    assert events.of(HttpServing)[0].url == f"http://127.0.0.1:{port}"
    one.app.stop()
    with pytest.raises(ConnectionError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=2.0).request("GET", "/live")


def test_a_held_key_fails_health_alone(site: Any, lab: Any, recorder: Any) -> None:
    """It must not keep its own fix from being rolled out; an action with the token frees it."""
    recorder.fail_at(0)
    one = site(recorder, on_failure=ehkafka.Hold())
    one.app.start()
    lab.produce("a a")
    wait_until(lambda: [key["status"] for key in one.ask("/state")[1]["keys"]][:1] == ["waiting: on hold"])
    assert [one.status(path) for path in ("/live", "/ready", "/startup")] == [200, 200, 200]
    status, body = one.ask("/health")
    assert (status, body["ok"]) == (503, False)
    assert "t[0]@0, key a" in body["reasons"][0]
    key = one.ask("/state")[1]["keys"][0]
    asked = {"do": "skip", "target": "key", "name": key["name"], "offset": key["offset"]}
    assert one.ask("/actions", asked)[0] == 401
    assert lab.committed() != 2
    assert one.ask("/actions", asked, TOKEN)[0] == 200
    wait_until(lambda: lab.committed() == 2)
    status, body = one.ask("/actions", asked, TOKEN)
    assert (status, body["reason"]) == (409, "moved")
    wait_until(lambda: one.status("/health") == 200)


def test_a_broker_that_is_away_fails_ready_and_not_live(site: Any, lab: Any, recorder: Any) -> None:
    """A restart would not bring it back."""
    one = site(recorder, unreachable_s=1.5)
    one.app.start()
    wait_until(lambda: one.status("/ready") == 200)
    lab.broker.take_down()
    wait_until(lambda: one.status("/ready") == 503)
    must_stay(lambda: one.status("/live") == 200, for_s=2.0)
    assert one.status("/startup") == 200


def test_a_client_that_knows_no_broker_any_more_fails_live(
    site: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a restart brings one back."""
    one = site(recorder, unreachable_s=1.5)
    one.app.start()
    wait_until(lambda: one.status("/ready") == 200)
    stranded = Statistics(0.1, "steady", knows_brokers=False)
    monkeypatch.setattr("ehkafka.intake.contact.read_statistics", lambda _text: stranded)
    wait_until(lambda: one.status("/live") == 503)
    assert "has known no broker" in str(one.ask("/live"))


def test_before_the_group_is_joined_startup_and_ready_fail(
    site: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And live does not: the broker may be away for long."""
    one = site(recorder)
    reached = threading.Event()
    one.app.on_start(lambda: reached.wait(20.0))
    starting = threading.Thread(target=one.app.start)
    starting.start()
    try:
        wait_until(lambda: one.app._life.web.has_site and one.app._life.web.site._server is not None)
        wait_until(lambda: hasattr(one.app.current_run, "context"))
        assert [one.status(path) for path in ("/startup", "/ready", "/live")] == [503, 503, 200]
    finally:
        reached.set()
        starting.join(20.0)
    wait_until(lambda: one.status("/ready") == 200)


def test_a_handler_past_its_deadline_fails_live(site: Any, lab: Any, recorder: Any) -> None:
    """A thread cannot be ended: only a restart frees it."""
    recorder.block(b"a")
    one = site(recorder, deadline_s=0.3, stuck_s=0.5)
    one.app.start()
    lab.produce("a")
    wait_until(lambda: recorder.started)
    assert one.status("/live") == 200
    wait_until(lambda: one.status("/live") == 503)
    assert "'Recorder'" in one.ask("/live")[1]["reasons"][0]


def test_a_poll_loop_that_stands_fails_live(site: Any, recorder: Any) -> None:
    """But not one that is inside a rebalance, for which a drain has its time."""
    one = site(recorder)
    one.app.start()
    wait_until(lambda: one.status("/ready") == 200)
    loop = inside(one.app).loop
    real = type(loop).turn

    def standing(self: Any, consumer: Any) -> None:
        self.last_turn_s = time.monotonic() - 20.0
        self.membership.is_in_callback = is_inside
        time.sleep(0.05)
        self.membership.watch = None

    is_inside = False
    loop.turn = standing.__get__(loop)
    wait_until(lambda: one.status("/live") == 503)
    is_inside = True
    wait_until(lambda: one.status("/live") == 200)
    loop.turn = real.__get__(loop)


def test_a_stopping_app_is_live_and_not_ready(site: Any, lab: Any, recorder: Any) -> None:
    """No new work is sent to it, and it is not killed while it drains."""
    gate = recorder.block(b"a")
    one = site(recorder)
    one.app.start()
    lab.produce("a")
    wait_until(lambda: recorder.started)
    stopping = threading.Thread(target=one.app.stop)
    stopping.start()
    try:
        wait_until(lambda: one.status("/ready") == 503)
        assert one.status("/live") == 200
        assert one.status("/startup") in (200, 503)
    finally:
        gate.set()
        stopping.join(20.0)


@pytest.mark.parametrize("loop", ["own", "caller"])
def test_it_is_mounted_in_another_web_app(lab: Any, loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an ASGI application, below a path, also on the handlers' loop; nothing is bound."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)

    async def handle(_record: Any) -> None:
        """Handle a record."""

    app = lab.app(handle, loop=loop)
    outer = starlette.applications.Starlette(routes=[starlette.routing.Mount("/kafka", app=app.http_app)])
    lab.produce("a")

    async def answers() -> list[int]:
        transport, own = httpx.ASGITransport(app=outer), {"authorization": f"Bearer {TOKEN}"}
        async with app, httpx.AsyncClient(transport=transport, base_url="http://10.0.0.1/kafka") as client:
            await until(lambda: app.snapshot().finished_records == 1)
            asked: list[tuple[str, dict[str, str]]]
            asked = [("live", {}), ("ready", {}), ("metrics", {}), ("state", {}), ("state", own)]
            return [(await client.get(path, headers=headers)).status_code for path, headers in asked]

    assert asyncio.run(answers()) == [200, 200, 200, 401, 200]
    assert app._life.web.site._server is None


def test_a_port_in_use_starts_nothing(lab: Any, recorder: Any, site: Any, events: Any) -> None:
    """Before anything is consumed."""
    first = site(lab.recorder())
    first.app.start()
    wait_until(lambda: events.of(AppStarted))
    second = lab.app(recorder, http=Http(address=f"127.0.0.1:{port_of(first.app)}"))
    with pytest.raises(ehkafka.errors.ConfigurationError, match="cannot listen"):
        second.start()
    assert (second.state, [event.group for event in events.of(AppStarted)]) == ("stopped", ["g"])


def test_dead_letters_are_shown_and_redriven(site: Any, lab: Any, recorder: Any) -> None:
    """The newest ones, with where they came from; only with the token they go back."""
    recorder.fail_at(0)
    one = site(recorder, on_failure=ehkafka.DeadLetter("u"))
    one.app.start()
    lab.produce("a b")
    wait_until(lambda: lab.committed() == 2)
    recorder.work = None
    assert one.ask("/state")[1]["letters"]["topics"] == ["u"]
    status, answer = one.ask("/letters?topic=u&limit=5")
    [letter] = answer["letters"]
    assert (status, letter["key"], letter["origin"], answer["more"]) == (200, "a", "t/0@0", False)
    assert "ValueError: no luck with 0" in letter["error"]
    assert one.ask("/letters?topic=t")[0] == 404
    assert one.ask("/letters?topic=u&limit=-1")[0] == 400
    asked = {"topic": "u", "preview": True}
    assert one.ask("/letters/redrive", asked)[0] == 401
    assert one.ask("/letters/redrive", asked, TOKEN)[1]["text"] == "1 letter of u goes back to t."
    assert one.ask("/letters/redrive", {**asked, "preview": False}, TOKEN)[1]["records"] == 1
    wait_until(lambda: lab.committed() == 3)
    assert recorder.finished_offsets() == [1, 2]
