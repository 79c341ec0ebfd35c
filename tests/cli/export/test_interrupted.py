"""`ehkafka export` that is ended: in a terminal, by the system, and what is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from tests.kit.terminal import Terminal
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FROM = ("--from", "earliest", "--to", "out.parquet")


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run two brokers, of which the second one has a partition whose records do not arrive."""
    with EmbeddedBroker({"orders": 2}, brokers=2) as broker:
        for partition in range(2):
            broker.move_leader("orders", partition, partition + 1)
            broker.produce("orders", [("k", b"x" * 50)] * 25_000, partition=partition)
        broker.delay_next(ApiKey.FETCH, 300.0, times=100, broker_id=2)
        yield broker


@pytest.fixture
def terminal(tmp_path: Path, broker: EmbeddedBroker) -> Iterator[Terminal]:
    """Run an export in a terminal that has read one of two partitions and waits for the other."""
    there = Terminal(tmp_path, "export", "orders", "--endpoint", broker.bootstrap, *FROM)
    wait_until(lambda: "/50000" in there.text.replace(" ", ""), lambda: there.text)
    wait_until(lambda: list(tmp_path.glob("out.parquet.*.part/out.parquet")), lambda: there.text)
    yield there
    there.close()


@pytest.mark.parametrize("by", ["Ctrl-C", "SIGTERM", "the terminal's end"])
def test_what_ends_it_in_order_leaves_no_file(terminal: Terminal, tmp_path: Path, by: str) -> None:
    """The exit code of an interruption, and one line where a terminal is left; the bar is gone."""
    if by == "the terminal's end":
        terminal.hang_up()
    elif by == "SIGTERM":
        terminal.process.terminate()
    else:
        terminal.press(b"\x03")
    code = terminal.process.wait(20)
    if by != "the terminal's end":  # which leaves no place for a line
        assert code == 130
        wait_until(lambda: "ehkafka: interrupted: the file out.parquet was not written." in terminal.text)
    assert "Traceback" not in terminal.text
    assert list(tmp_path.iterdir()) == []


def test_what_is_killed_leaves_no_file_of_that_name(
    terminal: Terminal, tmp_path: Path, broker: EmbeddedBroker, ehkafka_command: Callable[..., Any]
) -> None:
    """Only a folder that is named as one that is not finished; the next export is not in its way."""
    terminal.process.kill()
    terminal.process.wait(20)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("out.parquet.")
    assert left.name.endswith(".part")
    ended = ehkafka_command("export", "orders", "--endpoint", broker.bootstrap, *FROM, "--partition", "0")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("out.parquet has 25000 records, ")


def test_a_terminal_shows_a_bar_and_nothing_of_it_at_the_end(tmp_path: Path, broker: EmbeddedBroker) -> None:
    """How many of how many, the rate and the time left; then one line."""
    there = Terminal(tmp_path, "export", "orders", "--endpoint", broker.bootstrap, *FROM, "--partition", "0")
    assert there.process.wait(30) == 0
    wait_until(lambda: "out.parquet has 25000 records, " in there.text)
    there.close()
    assert "Exporting" in there.text
    assert "offsets/s, 0:00:0" in there.text
    assert there.shown.count(b"\x1b[?25l") == there.shown.count(b"\x1b[?25h") == 1


def test_a_broker_that_falls_silent_leaves_no_file(
    tmp_path: Path, broker: EmbeddedBroker, ehkafka_command: Callable[..., Any]
) -> None:
    """The error names what is missing, in the words of the command's own options."""
    ended = ehkafka_command("export", "orders", "--endpoint", broker.bootstrap, *FROM, "--timeout", "0.5")
    first, second = ended.stderr.splitlines()
    assert (ended.returncode, first) == (3, "ehkafka: out.parquet was not written:")
    assert "orders[1] from 0 to 25000" in second
    assert second.endswith("If the broker is only slow, raise --timeout.")
    assert list(tmp_path.iterdir()) == []
