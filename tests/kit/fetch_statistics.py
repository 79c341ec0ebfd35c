"""What librdkafka's statistics say of fetches, for tests of what reads that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def fetch_statistics(
    ends: Mapping[int, int],
    *,
    sent: int,
    unparsed: int = 0,
    position: int = 7,
    throttled_ms: int = 0,
    **broker: Any,
) -> str:
    """Return the statistics of a client whose partitions of one topic have these ends, at one broker."""
    leader = {
        "nodeid": 1,
        "connects": 1,
        "disconnects": 0,
        "req_timeouts": 0,
        "rxpartial": unparsed,
        "req": {"Fetch": sent},
        "throttle": {"max": throttled_ms},
        **broker,
    }
    partitions = {
        str(number): {
            "partition": number,
            "broker": 1,
            "fetch_state": "active",
            "next_offset": position,
            "ls_offset": end,
        }
        for number, end in ends.items()
    }
    # As a client writes them: one entry stands for what has no partition yet.
    partitions["-1"] = {
        "partition": -1,
        "broker": -1,
        "fetch_state": "none",
        "next_offset": -1001,
        "ls_offset": -1,
    }
    topics = {"t": {"topic": "t", "partitions": partitions}}
    return json.dumps({"brokers": {"b/1": leader, "bootstrap": {"nodeid": -1}}, "topics": topics})
