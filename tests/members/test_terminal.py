"""Members in a terminal: a table with a line for each, and the terminal's end is a stop."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ehkafka.cli.run_view import table_of
from ehkafka.http.measures import Rates
from ehkafka.telemetry.snapshot import MemberSnapshot
from tests.kit.pictures import ONE, PARTITION
from tests.kit.terminal import Terminal
from tests.kit.waiting import wait_until
from tests.members.conftest import LIMIT_S, READY, SHOP, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def terminal(tmp_path: Path, write: Callable[..., Path]) -> Iterator[Terminal]:
    """Return a terminal in which two members run."""
    write(SHOP)
    found = Terminal(tmp_path, "run", "shop:app", "--members", "2")
    yield found
    found.close()


def members(terminal: Terminal) -> dict[int, int]:
    """Return the processes of the members that became ready."""
    words = " ".join(terminal.text.split())
    return {int(number): int(pid) for number, pid in re.findall(READY, words)}


def test_a_terminal_shows_a_table_and_ctrl_c_stops_all(terminal: Terminal) -> None:
    """Below the log: a line for each member and one for all; Ctrl-C says how to stop at once."""
    wait_until(lambda: len(members(terminal)) == 2, lambda: terminal.text, LIMIT_S)
    found = members(terminal)
    lines = [rf"{number} +running, ready +{pid} +\d" for number, pid in found.items()]
    wait_until(
        lambda: all(re.search(line, terminal.text) for line in [*lines, r"all +running, ready +– +4 "]),
        lambda: terminal.text,
        LIMIT_S,
    )
    assert re.search(r"\[2\] STARTED \d+", terminal.text)
    terminal.press(b"\x03")
    assert terminal.process.wait(LIMIT_S) == 0
    assert "press Ctrl-C again to stop at once" in terminal.text
    wait_until_gone(*found.values())


def test_the_end_of_the_terminal_is_a_stop(terminal: Terminal) -> None:
    """Its hang-up replaces no member: all drain, and end."""
    wait_until(lambda: len(members(terminal)) == 2, lambda: terminal.text, LIMIT_S)
    found = members(terminal)
    terminal.hang_up()
    assert terminal.process.wait(LIMIT_S) == 0
    wait_until_gone(*found.values())


def test_a_line_shows_what_a_member_is_at() -> None:
    """One that waits has nothing to show, and one that is not live is named; the last line is the sum."""
    shown = {"last_end": "", "silence_s": 0.0, "is_ready": True}
    partition = replace(PARTITION, lag_records=3)
    app = replace(ONE, partitions=(partition,))
    found = (
        MemberSnapshot(number=1, pid=4711, state="running", restarts=0, is_live=True, snapshot=app, **shown),
        MemberSnapshot(number=2, pid=12, state="running", restarts=1, is_live=False, snapshot=app, **shown),
        MemberSnapshot(
            number=3, pid=None, state="waiting", restarts=2, is_live=False, snapshot=None, **shown
        ),
    )
    rates = Rates()
    for at_s, finished in ((10.0, 30), (12.0, 50)):
        counted = replace(partition, finished_records=finished)
        total = replace(ONE, taken_at_s=at_s, partitions=(counted,), members=found)
        table = table_of(total.as_dict(), rates)
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert rows == [
        ("1", "running, ready", "4711", "1", "3", "10", "0", "0.00 s", "–"),
        ("2", "running, ready, not live", "12", "1", "3", "10", "1", "0.00 s", "–"),
        ("3", "waiting, ready, not live", "–", "–", "–", "–", "2", "0.00 s", "–"),
        ("all", "running, ready, not live", "–", "1", "3", "10", "3", "–", "–"),
    ]
