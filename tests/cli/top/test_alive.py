"""`ehkafka top` on a running app: a poison key is seen and skipped."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ehkafka.cli.door import Door
from ehkafka.cli.top.screen import Top
from tests.kit.held_app import Held, held_app
from tests.kit.top_seen import Seen

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ehkafka.testing import EmbeddedBroker

TOKEN = "a-token-of-24-characters"


def test_a_poison_key_is_seen_and_skipped(
    embedded_broker_factory: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own sentence stands in the dialog, and the commit passes."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)

    async def skipped(held: Held) -> None:
        door = Door(held.url, TOKEN, 5.0)
        app = Top(door, door.state().body)
        async with app.run_test(size=(120, 40)) as pilot:
            seen: Any = Seen(app, pilot)
            held.poison()
            await seen.until(lambda: [row[:3] for row in seen.rows("keys")][:1] == [["●", "home-1", "t/0@0"]])
            await seen.until(lambda: "held" in seen.rows("keys")[0][3])
            await seen.until(lambda: "in store_reading" in seen.text("#key-text"))
            await seen.asked("s")
            assert "t/0@0" in seen.text("#dialog-text")
            await seen.confirmed()
            await seen.until(lambda: held.committed() == 3)
            await seen.until(lambda: not seen.rows("keys"))

    with held_app(embedded_broker_factory({"t": 1})) as held:
        asyncio.run(skipped(held))
