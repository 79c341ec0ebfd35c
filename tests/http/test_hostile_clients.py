"""Clients that are slow, many, or send nonsense: bounded, and the others are answered meanwhile."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import ActionRefusedError
from ehkafka.events import ActionTaken
from ehkafka.http import protocol
from ehkafka.http.state import KEYS_MAX
from ehkafka.http.stream import STREAMS_MAX
from ehkafka.offsets.members import GroupMember
from ehkafka.run.steer.keys import KeyState
from tests.http.conftest import ask_for, connected
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


def is_open(one: socket.socket) -> bool:
    """Send one byte more of a header; tell whether the server still listens."""
    one.settimeout(0.01)
    try:
        one.sendall(b"a")
        return bool(one.recv(64))
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_too_many_streams_are_refused_and_probes_go_on(client: Any) -> None:
    """One more than may gets 503; a place that is free again is taken again."""
    request = ask_for("/events")
    with ExitStack() as stack:
        streams = [connected(client, stack, request) for _ in range(STREAMS_MAX)]
        for one in streams:
            assert one.recv(64).startswith(b"HTTP/1.1 200")
        refused = client.ask("/events")
        assert (refused.status, refused.json["reason"]) == (503, "streams")
        assert client.ask("/live").status == 200
    with ExitStack() as stack:
        wait_until(lambda: connected(client, stack, request).recv(64).startswith(b"HTTP/1.1 200"))


def test_the_state_is_bounded_and_says_what_it_leaves_out(client: Any) -> None:
    """Keys, errors and problems may be many and long: a record can repeat itself in its error."""
    state = dict.fromkeys(("handler", "status"), "held") | {"attempts": 1, "records": 1, "is_blocking": False}
    long: dict[str, Any] = {
        **state,
        "key": "k",
        "age_s": 1.0,
        "state": "s" * 50_000,
        "last_error": "e" * 50_000,
    }
    long["last_error"] = "e" * 50_000
    many = [KeyState(name=f"t/0@{at}", topic="t", partition=0, offset=at, **long) for at in range(2_000)]
    client.served.waiting = lambda *, values: many
    client.served.reasons = ("a problem",) * 3_000
    answered = client.ask("/state")
    assert len(answered.body) < 1_000_000
    assert (len(answered.json["keys"]), answered.json["keys_left_out"]) == (KEYS_MAX, 2_000 - KEYS_MAX)
    health = client.ask("/health").json
    assert (health["problems"], len(health["reasons"])) == (3_000, 101)
    assert health["reasons"][-1] == "2900 more problems are left out here."


def test_a_stream_has_the_state_at_once_and_then_events(client: Any) -> None:
    """Each as one server-sent event, with what this listener may."""
    with ExitStack() as stack:
        one = connected(client, stack, ask_for("/events"))
        seen = b""
        while b"event: state" not in seen or b'"may_act":false' not in seen:
            seen += one.recv(65_536)
        client.site.journal.on_event(ActionTaken("skip", "key", "t/0@0", "me", changed=True, result="done"))
        while b"event: event" not in seen:
            seen += one.recv(65_536)
        assert b"Action: done. Requested by me." in seen


def test_a_client_that_says_nothing_is_let_go(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that sends its header a byte at a time, too; answers that take long stay."""
    monkeypatch.setattr(protocol, "IDLE_S", 0.5)
    monkeypatch.setattr(protocol, "CHECK_S", 0.1)
    client = serve()
    with ExitStack() as stack:
        silent = connected(client, stack)
        slow = connected(client, stack, b"GET /live HTTP/1.1\r\n")
        stream = connected(client, stack, ask_for("/events"))
        assert silent.recv(64) == b""
        wait_until(lambda: not is_open(slow), "the end of a header that takes all day")
        assert stream.recv(64).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"nonsense", 400),
        (b"\xff\xfe", 400),
        (b'{"token": 1}', 403),
        (b"[" * 10_000, 400),
        (b'{"token": "' + b"x" * 20_000 + b'"}', 413),
    ],
)
def test_a_body_that_is_no_small_object_is_refused(client: Any, body: bytes, status: int) -> None:
    """In one sentence, as JSON."""
    answered = client.post("/login", body)
    assert answered.status == status
    assert answered.json["text"]


@pytest.mark.parametrize(
    ("reason", "status"),
    [("unknown", 404), ("elsewhere", 404), ("moved", 409), ("running", 409), ("busy", 503), ("invalid", 400)],
)
def test_a_refused_action_has_its_status_and_its_sentence(
    client: Any, token: str, reason: str, status: int
) -> None:
    """With what may have been meant."""
    client.served.refusal = ActionRefusedError(reason, "Nothing was done.", ("t/0@1",))
    answered = client.post(
        "/actions", {"do": "skip", "target": "key", "name": "a"}, authorization=f"Bearer {token}"
    )
    assert answered.status == status
    assert answered.json == {"reason": reason, "text": "Nothing was done.", "names": ["t/0@1"]}


def test_a_key_that_is_elsewhere_is_answered_with_who_has_it(
    client: Any, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the broker says; where it does not, the app's own words stay."""
    found = [GroupMember("home-1", "/10.0.0.7", (0, 3))]
    monkeypatch.setattr("ehkafka.http.application.members_of", lambda *_asked: found)
    monkeypatch.setattr("ehkafka.http.application.Target.of_app", lambda _app: SimpleNamespace(group="g"))
    client.served.refusal = ActionRefusedError("elsewhere", "It is not with this member.")
    asked = {"do": "skip", "target": "key", "name": "readings/3@7"}
    bearer = {"authorization": f"Bearer {token}"}
    answered = client.post("/actions", asked, **bearer)
    assert answered.status == 404
    assert answered.json["text"] == "Not here. Partition 3 of readings is assigned to /10.0.0.7 (home-1)."
    assert (
        client.post("/actions", {**asked, "name": "readings/4@7"}, **bearer)
        .json["text"]
        .startswith("It is not")
    )


def test_the_server_ends_at_once_with_streams_open(client: Any) -> None:
    """A stop of the app does not wait for listeners."""
    with ExitStack() as stack:
        one = connected(client, stack, ask_for("/events"))
        assert one.recv(64)
        began_s = time.monotonic()
        client.site.stop()
        assert time.monotonic() - began_s < 3.0
