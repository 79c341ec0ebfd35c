"""One odd text hides nothing: what UTF-8 cannot say goes out all the same."""

from __future__ import annotations

import json

from ehkafka.http.plain import dumped

HALF = "half of a pair: \ud800"


def test_half_of_a_character_pair_can_be_said() -> None:
    """And everything next to it."""
    given = {"key": HALF, "lag": None, "rate": 1.5, "names": ["שלום", "\u202e"]}
    assert json.loads(dumped(given)) == given
    assert json.loads(dumped({"names": "שלום"})) == {"names": "שלום"}
