"""The example of fan-in: what comes in, what goes out, in which order, and what is committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ehkafka.testing import EmbeddedBroker
from tests.kit.topic_read import read_all

if TYPE_CHECKING:
    from collections.abc import Callable


def decoded(broker: EmbeddedBroker, topic: str) -> list[tuple[str, Any]]:
    """Return key and value of what is in a topic."""
    return [(key.decode(), json.loads(value)) for key, value in read_all(broker.bootstrap, topic)]


def test_doors_and_windows_become_one_stream(start_example: Callable[..., Any]) -> None:
    """In one form, a home's in order within each topic; a tilted window is no news."""
    doors = [("home-1", {"door": "front", "state": state}) for state in ("open", "closed", "open")]
    windows = [
        ("home-1", {"window": "bath", "position": "wide"}),
        ("home-1", {"window": "bath", "position": "tilted"}),
        ("home-2", {"window": "hall", "position": "closed"}),
    ]
    with EmbeddedBroker({"doors": 2, "windows": 2, "openings": 2, "unread": 1}) as broker:
        broker.produce("doors", [(key, json.dumps(value)) for key, value in doors])
        broker.produce("windows", [(key, json.dumps(value)) for key, value in windows])
        broker.produce("windows", [("home-2", "{}")])
        example = start_example("examples/fan_in/app.py", EHKAFKA_BOOTSTRAP=broker.bootstrap)

        def committed(topic: str) -> int:
            return sum(filter(None, broker.committed("join", topic).values()))

        example.wait_until(lambda _log: (committed("doors"), committed("windows")) == (3, 4))
        example.stop()
        found = decoded(broker, "openings")
        front = [value["open"] for key, value in found if key == "home-1" and value["place"] == "front"]
        assert front == [True, False, True]
        rest = [(key, value["place"], value["open"]) for key, value in found if value["place"] != "front"]
        assert sorted(rest) == [("home-1", "bath", True), ("home-2", "hall", False)]
        assert all(value["source"].startswith(("doors[", "windows[")) for _, value in found)
        assert [key for key, _ in decoded(broker, "unread")] == ["home-2"]
