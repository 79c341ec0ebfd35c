"""The home-security pipeline by its one command, as its README says; what is missing is one clear message."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from home_pipeline import check, show
from home_pipeline.stage import HERE, Stage

from tests.kit.azurite_install import azurite_main
from tests.kit.pages import ROOT
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from tests.kit.azurite import Azurite

RUN_S = 600.0  # a quarter of a minute on a machine that has time
SMALL = ("--homes", "300", "--rate", "300", "--port", "0", "--window-s", "2", "--new-sensor-after", "6")


@pytest.mark.timeout(700)
def test_one_command_runs_it_all_until_ctrl_c_and_checks_itself(azurite: Azurite, tmp_path: Path) -> None:
    """Two members share the partitions, a new kind appears, Ctrl-C: all numbers equal, nothing left."""
    seen = []
    awaited = ["the members have 8 and 8 partitions", "a new kind of sensor is on the page: water"]
    with started("--engine", "local", "--second-after", "1", *SMALL, TMPDIR=str(tmp_path)) as program:
        try:
            assert program.stdout is not None
            for line in program.stdout:
                seen.append(line)
                awaited = [words for words in awaited if words not in line]
                if not awaited:
                    program.send_signal(signal.SIGINT)
                    awaited = ["(nothing more)"]
            assert program.wait(RUN_S) == 0, seen
        finally:
            program.kill()
    assert any("✓ the page's numbers equal the ledger's" in line for line in seen), seen
    assert any("alarms has its alert in the topic" in line for line in seen), seen
    assert [*tmp_path.iterdir()] == []


@pytest.mark.timeout(700)
def test_parts_that_are_killed_come_back_and_the_numbers_are_equal(azurite: Azurite) -> None:
    """The engine, the page and the alerts, each killed once: each is started again, with words."""
    killed = ["local_engine", "page.server", "alerts"]
    awaited = {f"{name} ended with code -9; it starts again in 1 s" for name in ("engine", "page", "alerts")}
    awaited |= {f"{name} starts again" for name in ("engine", "page", "alerts")}
    seen = []
    with started("--engine", "local", *SMALL) as program:
        try:
            assert program.stdout is not None
            for line in program.stdout:
                seen.append(line)
                awaited = {words for words in awaited if words not in line}
                if "the first readings are on the page" in line:
                    for module in killed:
                        os.kill(part_of(program.pid, module), signal.SIGKILL)
                if not awaited:
                    program.send_signal(signal.SIGINT)
                    awaited = {"(nothing more)"}
            assert program.wait(RUN_S) == 0, seen
        finally:
            program.kill()
    assert any("✓ the page's numbers equal the ledger's" in line for line in seen), seen
    assert any("alarms has its alert in the topic" in line for line in seen), seen


@pytest.mark.timeout(700)
def test_a_store_that_is_killed_is_back_with_its_blobs(azurite: Azurite) -> None:
    """Killed twice while blobs are written: the page says so, shows all of them again, numbers are equal."""
    seen: list[str] = []
    address, kills, most = "", 0, 0
    with started("--engine", "local", *SMALL) as program:
        try:
            assert program.stdout is not None
            for line in program.stdout:
                seen.append(line)
                if "all homes" in line:
                    address = line.partition("http://")[2].partition("/")[0]
                if "the first readings are on the page" not in line and "store starts again" not in line:
                    continue
                wait_until(partial(has_more, address, most + 300), "more readings", 60.0)
                most = overview(address)["readings"]
                if kills == 2:
                    program.send_signal(signal.SIGINT)
                    continue
                os.kill(process_of(program.pid, str(azurite_main())), signal.SIGKILL)
                kills += 1
                if kills == 2:  # it is away for longer than the first time
                    wait_until(partial(is_without_store, address), "the page's words")
            assert program.wait(RUN_S) == 0, seen
        finally:
            program.kill()
    assert sum("store ended with code -9; it starts again in" in line for line in seen) == 2
    assert any("✓ the page's numbers equal the ledger's" in line for line in seen), seen
    assert any("alarms has its alert in the topic" in line for line in seen), seen


def test_without_the_simulator_there_is_nothing_to_compare_with(azurite: Azurite) -> None:
    """It alone is not started again: the command ends, and says why."""
    with started("--engine", "local", *SMALL) as program:
        try:
            assert program.stdout is not None
            for line in program.stdout:
                if "the app starts" in line:
                    os.kill(part_of(program.pid, "simulate"), signal.SIGKILL)
                    break
            seen = program.stdout.read()
            assert program.wait(RUN_S) == 1, seen
        finally:
            program.kill()
    assert "simulator ended with code -9" in seen


def test_a_comparison_says_first_how_many_readings_the_engine_has_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page that stands still with less than was sent: the engine may be slow, and nothing lost."""
    unequal = ["motion: 10 were sent, the page has 4"]
    monkeypatch.setattr(show, "FIRST_PATIENCE_S", 0.5)
    monkeypatch.setattr(show, "PATIENCE_S", 0.0)
    monkeypatch.setattr(check, "compare", lambda _sent, _address: check.Compared(0, 0, [*unequal]))
    monkeypatch.setattr(check, "ask", lambda _address, _path: {"readings": 4})
    keeper: Any = SimpleNamespace(check=lambda: None)
    sent: Any = SimpleNamespace(sent=12, left_out={"half": 2})
    [first, *others] = show.final(keeper, sent, "http://127.0.0.1:1").differences
    assert first.startswith("6 readings are not on the page, which has not changed for 0 s: ")
    assert others == unequal


def test_a_port_that_is_taken_is_said_before_anything_starts() -> None:
    """One line names the address, the reason and the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, seen = run("--engine", "local", "--port", str(port))
    assert code == 3
    assert seen == (
        f"The page cannot have 127.0.0.1:{port} (Address already in use): name another port with --port, "
        "or let --port 0 choose a free one\n"
    )


@pytest.mark.parametrize(("engine", "extras"), [("local", "web"), ("spark", "spark,web")])
def test_missing_packages_are_named_with_the_extra(engine: str, extras: str) -> None:
    """Python without its site-packages, as on a new machine: one line, no traceback."""
    code, seen = run("--engine", engine, python=("-I", "-S"))
    assert code == 2
    assert "not installed: ehkafka, starlette, uvicorn" in seen
    assert f"-m pip install '{ROOT}[{extras}]'" in seen
    assert len(seen.splitlines()) == 1


@pytest.mark.parametrize("wrong", ["--window-s=7", "--homes=0", "--rate=fast", "--port=70000", "--keep-s=60"])
def test_a_number_that_cannot_be_is_refused(wrong: str) -> None:
    """The option is named; nothing starts."""
    code, seen = run(wrong)
    assert code == 2
    assert f"argument {wrong.partition('=')[0]}:" in seen


def test_a_part_that_has_ended_is_named_with_its_reason(tmp_path: Path) -> None:
    """With its code and its last words."""
    stage = Stage(tmp_path, {"PATH": "/nowhere"})
    stage.start("page", "page.server")
    stage.parts["page"].wait(30)
    [(name, words)] = stage.failed()
    assert name == "page"
    assert words.startswith("page ended with code 1")
    assert "HOME_SECURITY_STORAGE and HOME_SECURITY_CONTAINER" in words
    assert stage.stop("page") == 1


def started(*arguments: str, python: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    """Start the command; what it says on both outputs is one text."""
    return subprocess.Popen(
        [sys.executable, *python, str(HERE / "run.py"), *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def has_more(address: str, readings: int) -> bool:
    """Tell whether the page has more readings than so many."""
    return bool(overview(address)["readings"] > readings)


def is_without_store(address: str) -> bool:
    """Tell whether the page says that it cannot read the blobs."""
    return "cannot be read since" in (overview(address)["problem"] or "")


def overview(address: str) -> dict[str, Any]:
    """Return what the page has of all homes; nothing while it is away."""
    try:
        return dict(check.ask(address, "/api/overview"))
    except OSError:
        return {"readings": 0, "problem": None}


def part_of(parent: int, module: str) -> int:
    """Return the process that the command has started for a module."""
    return process_of(parent, f"home_pipeline.{module}")


def process_of(parent: int, word: str) -> int:
    """Return the process that was started with a word in its command line."""

    def found() -> list[int]:
        running = (path for path in Path("/proc").iterdir() if path.name.isdigit())
        return [int(path.name) for path in running if is_part(path, parent, word)]

    return int(wait_until(found, word)[0])


def is_part(path: Path, parent: int, word: str) -> bool:
    """Tell whether a process has the word, and was started by its parent."""
    try:
        words = (path / "cmdline").read_bytes().split(b"\0")
        return word.encode() in words and f"PPid:\t{parent}\n" in (path / "status").read_text()
    except OSError:  # gone meanwhile
        return False


def run(*arguments: str, python: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run the command to its end; return its exit code and what it said."""
    with started(*arguments, python=python) as program:
        seen = program.communicate(timeout=RUN_S)[0]
    return program.returncode, seen
