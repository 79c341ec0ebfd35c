"""`ehkafka top` as it is used: textual's pilot presses the keys, the double of the server answers."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from textual.widgets import Checkbox, Select

from ehkafka.cli.door import Door
from ehkafka.cli.top.ask import Ask
from ehkafka.cli.top.screen import Top
from ehkafka.errors import ActionRefusedError
from tests.kit import http_states as states
from tests.kit.http_double import TOKEN, HttpDouble, served
from tests.kit.top_seen import Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SIZE = (132, 40)


def used(story: Any, state: dict[str, Any], *, token: str | None = TOKEN) -> None:
    """Run a story on the screen over a state."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Seen]:
        double = HttpDouble(state)
        with served(double) as url:
            door = Door(url, token, 5.0)
            app = Top(door, door.state().body)
            async with app.run_test(size=SIZE) as pilot:
                await pilot.pause()
                yield Seen(app, pilot, double)

    async def run() -> None:
        async with opened() as seen:
            await story(seen)

    asyncio.run(run())


def test_a_poison_key_stands_first(tmp_path: Path) -> None:
    """With its value and error below; the tiles and the reason above; rates by difference."""

    async def story(seen: Seen) -> None:
        assert "running, 1 problem" in seen.text("#head")
        assert "readings/3 stands at 91003" in seen.text("#reasons")
        first = seen.rows("keys")[0]
        assert first[:3] == ["●", "home-4711", "readings/3@91003"]
        assert first[4:7] == ["4 min 12 s", "5", "132"]
        assert [row[0] for row in seen.rows("keys")].count("●") == 2
        assert "ReadingError" in seen.text("#key-text")
        assert '"sensor": null' in seen.text("#key-text")
        assert "not catching up" in seen.text("#tile-lag")
        await seen.until(lambda: re.search(r"1,[78]\d\d", seen.text("#tile-rate")))
        kept = os.environ.get("EHKAFKA_PICTURES")
        seen.app.save_screenshot("top.svg", path=kept or str(tmp_path))
        await seen.pilot.press("down")
        assert "TimeoutError" in seen.text("#key-text")

    used(story, states.poisoned())


def test_a_call_that_hangs_marks_its_partition_and_is_not_skipped(tmp_path: Path) -> None:
    """Its stack begins with the user's line, however deep it is; a refused action says why at once."""

    async def story(seen: Seen) -> None:
        assert "1 commit held up" in seen.text("#tile-waiting")
        detail = seen.text("#key-text")
        assert "in handle" in detail
        assert "in socket" in detail
        assert "in client" not in detail
        await seen.pilot.press("s")
        assert "readings/3@91003 is with its handler: a running record cannot be retried" in seen.notices()
        assert seen.double.actions(preview=True) == []
        await seen.pilot.press("3")
        assert [row[-1] for row in seen.rows("partitions") if row[0] == "readings/3"] == [
            "held up by a running call"
        ]
        kept = os.environ.get("EHKAFKA_PICTURES")
        seen.app.save_screenshot("top-hanging.svg", path=kept or str(tmp_path))

    used(story, states.hanging())


def test_skipping_says_first_what_it_will_do() -> None:
    """Escape does nothing; the head's offset goes along, and so does the choice of all records."""

    async def story(seen: Seen) -> None:
        seen.double.sentences["skip"] = "Skip readings/3@91003: its commit goes on to 91004."
        await seen.asked("s")
        assert seen.text("#dialog-text") == "Skip readings/3@91003: its commit goes on to 91004."
        await seen.pilot.press("escape")
        await seen.until(lambda: not isinstance(seen.app.screen, Ask))
        assert seen.double.actions(preview=False) == []
        await seen.asked("s")
        seen.app.screen.query_one("#dialog-all", Checkbox).value = True
        await seen.until(lambda: [one["all"] for one in seen.double.actions(preview=True)][-1:] == [True])
        await seen.until(lambda: not seen.app.screen.query_one("#dialog-confirm").disabled)
        await seen.confirmed()
        asked = {"do": "skip", "target": "key", "name": "readings/3@91003", "offset": 91_003, "all": True}
        assert seen.double.actions(preview=False) == [{**asked, "preview": False}]
        assert "its commit goes on" in seen.notices()

    used(story, states.poisoned())


def test_an_enter_right_away_does_nothing() -> None:
    """The dialog opens on Cancel."""

    async def story(seen: Seen) -> None:
        await seen.asked("d")
        await seen.pilot.press("enter")
        await seen.until(lambda: not isinstance(seen.app.screen, Ask))
        assert seen.double.actions(preview=False) == []

    used(story, states.poisoned())


def test_a_refusal_is_shown_and_cannot_be_confirmed() -> None:
    """With the server's sentence and the names that fit."""

    async def story(seen: Seen) -> None:
        text = "Nothing was done: it has moved."
        seen.double.refusal = ActionRefusedError("moved", text, ("readings/3@91003",))
        await seen.asked("r")
        assert seen.text("#dialog-text") == "Nothing was done: it has moved.\n  readings/3@91003"
        assert seen.app.screen.query_one("#dialog-confirm").disabled

    used(story, states.poisoned())


def test_partitions_are_ordered_and_paused_and_handlers_stopped() -> None:
    """Each tab has its keys, and others do nothing there."""

    async def story(seen: Seen) -> None:
        await seen.pilot.press("3", "s")
        assert not isinstance(seen.app.screen, Ask)
        assert seen.rows("partitions")[3][7] == "its commit is held up"
        await seen.pilot.press("o")
        assert seen.rows("partitions")[0][:3:2] == ["readings/3", "5,210"]
        await seen.pilot.press("home")
        await seen.asked("p")
        seen.app.screen.query_one("#dialog-for", Select).value = 300
        await seen.until(lambda: [one["for_s"] for one in seen.double.actions(preview=True)][-1:] == [300])
        await seen.until(lambda: not seen.app.screen.query_one("#dialog-confirm").disabled)
        await seen.confirmed()
        await seen.pilot.press("7")
        await seen.asked("x")
        await seen.confirmed()
        done = seen.double.actions(preview=False)
        assert [(one["do"], one["target"], one.get("for_s")) for one in done] == [
            ("pause", "partition", 300),
            ("stop", "handler", None),
        ]

    used(story, states.poisoned())


def test_without_the_token_nothing_can_be_done() -> None:
    """The reason stands on the screen, and again when an action is tried; the token opens it."""

    async def refused(seen: Seen) -> None:
        assert "Actions need the token" in seen.text("#reasons")
        await seen.pilot.press("s")
        await seen.until(lambda: "Actions need the token" in seen.notices())
        assert not isinstance(seen.app.screen, Ask)

    async def done(seen: Seen) -> None:
        await seen.asked("s")
        await seen.confirmed()
        assert len(seen.double.actions(preview=False)) == 1

    used(refused, states.poisoned(), token=None)
    used(done, states.poisoned())


def test_what_comes_from_the_wire_is_text() -> None:
    """No markup is read, and nothing steers the terminal."""

    async def story(seen: Seen) -> None:
        state = states.hostile()
        state["health"]["reasons"] = ["[bold red]no[/] [/nothing] \u001b]0;owned\u0007"]
        state["errors"][0]["kind"] = "[@click=app.quit]x[/]"
        seen.double.state = state
        await seen.until(lambda: "[bold red]no[/]" in seen.text("#reasons"))
        await seen.pilot.press("4")
        shown = seen.app.export_screenshot()
        assert "[@click=app.quit]x[/]" in str(seen.rows("errors"))
        texts = [seen.text(f"#{name}") for name in ("reasons", "head", "key-text", "errors-text")]
        texts += [
            cell
            for name in ("keys", "errors", "events", "members", "handlers")
            for row in seen.rows(name)
            for cell in row
        ]
        assert not re.search(
            "[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\ud800-\udfff]", "".join(texts)
        )
        assert "\\x1b[2J" in "".join(texts)
        assert "\u001b" not in shown
        await seen.pilot.press("1")
        await seen.asked("s")

    used(story, states.healthy())


def test_an_app_that_does_not_answer_is_a_notice_with_the_age() -> None:
    """Until it answers again."""

    async def story(seen: Seen) -> None:
        port = seen.double.stop()
        await seen.until(lambda: seen.app.query_one("#broken").display)
        broken = seen.text("#broken")
        assert re.search(r"does not answer.* This screen is \d+(\.\d+)? s old\. Still trying\.", broken)
        seen.double.start(port)
        await seen.until(lambda: not seen.app.query_one("#broken").display)

    used(story, states.healthy())


def test_letters_are_read_and_redriven() -> None:
    """When asked for."""

    async def story(seen: Seen) -> None:
        letter = {"partition": 0, "offset": 17, "key": "home-1", "value": "{}", "headers": {}, "at_s": 1.0}
        seen.double.letters = [letter | {"error": "ValueError: no", "origin": "readings/3@91000"}]
        await seen.pilot.press("2", "l")
        await seen.until(lambda: seen.rows("letters"))
        assert seen.rows("letters")[0][:4] == ["0@17", "home-1", "ValueError: no", "readings/3@91000"]
        await seen.asked("g")
        assert seen.text("#dialog-text") == "1 letters of readings.dead go home."
        await seen.confirmed()
        assert [body["preview"] for path, body in seen.double.asked if path == "/letters/redrive"] == [
            True,
            False,
        ]
        await seen.pilot.press("n")
        assert seen.text("#letters-note") == "Press l to read the dead letters of orders.dead."
        assert seen.rows("letters") == []

    used(story, states.healthy() | {"letters": {"topics": ["readings.dead", "orders.dead"]}})
