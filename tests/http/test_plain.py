"""One odd text hides nothing: what UTF-8 cannot say goes out all the same."""

from __future__ import annotations

import json
import socket
from typing import Any

from ehkafka.http.plain import dumped
from tests.kit import http_states as states

HALF = "half of a pair: \ud800"


def test_half_of_a_character_pair_can_be_said() -> None:
    """And everything beside it."""
    given = {"key": HALF, "lag": None, "rate": 1.5, "names": ["שלום", "\u202e"]}
    assert json.loads(dumped(given)) == given
    assert json.loads(dumped({"names": "שלום"})) == {"names": "שלום"}


def test_a_hostile_key_does_not_take_the_state_away(client: Any) -> None:
    """Neither the answer nor the stream."""
    client.served.waiting = lambda values: [states.key(key=HALF, last_error=HALF)]
    assert client.ask("/state").json["keys"][0]["key"] == HALF
    with socket.create_connection(("127.0.0.1", client.port), timeout=10.0) as stream:
        stream.sendall(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        seen = b""
        while b'"may_act":' not in seen:
            seen += stream.recv(65_536)
        assert b"\\ud800" in seen
