"""`ehkafka run --reload`: a changed file replaces the app's process in good order, and signals end both."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.cli.reload import reloading
from ehkafka.cli.reload.reloading import Reload, run_reloading, without_reload
from ehkafka.errors import ConfigurationError
from tests.kit.running import Running
from tests.kit.waiting import must_stay, wait_until
from tests.members.conftest import is_there

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kit.terminal import Terminal

LIMIT_S = 60.0
# Each record takes until the file `go` is there. A log grows in the same folder all the time.
SHOP = """
    import os, pathlib, threading, time
    from confluent_kafka import Producer
    import ehkafka

    VERSION = 1
    endpoint = ehkafka.Endpoint.embedded({"orders": 1})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest")

    def say(text):
        print(f"{text}\\n", end="", flush=True)  # in one piece: the log is written by another thread

    @app.on_start
    def begin():
        say(f"BEGAN {VERSION} {os.getpid()}")
        producer = Producer(endpoint.client_properties())
        producer.produce("orders", value=b"{}")
        producer.flush(10)
        threading.Thread(target=write, daemon=True).start()

    def write():
        while True:
            pathlib.Path("shop.log").write_text(str(time.time()))
            time.sleep(0.02)

    @app.handler("orders")
    def handle(record):
        say(f"HANDLING {VERSION}")
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
        say(f"HANDLED {VERSION}")
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Write the app and return its file."""
    file = tmp_path / "shop.py"
    file.write_text(dedent(SHOP))
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts the command in a session of its own, without a terminal."""
    started: list[Running] = []

    def begin(*arguments: str) -> Running:
        started.append(Running(tmp_path, arguments, in_session=True))
        return started[-1]

    yield begin
    for running in started:
        for pid in re.findall(r"BEGAN \d+ (\d+)", running.stdout):
            kill(int(pid))
        running.close()


def kill(pid: int) -> None:
    """Leave nothing of a process."""
    if is_there(pid):
        os.kill(pid, signal.SIGKILL)


def change(file: Path, old: str, new: str) -> None:
    """Save the file with another text in the place of one, as if all of that were within one second."""
    text, times = file.read_text(), file.stat()
    assert old in text
    file.write_text(text.replace(old, new))
    os.utime(file, (times.st_atime, times.st_mtime))


def test_a_changed_file_replaces_the_app_which_finishes_first(shop: Path, start: Callable) -> None:
    """What has started is handled and committed before the new one begins; SIGTERM ends both."""
    running = start("run", "shop", "--reload")
    running.wait_for("HANDLING 1")
    change(shop, "VERSION = 1", "VERSION = 2")
    running.wait_for("ehkafka restarts the app: shop.py has changed.")
    running.wait_for("Stopping (SIGTERM)")
    (shop.parent / "go").touch()
    running.wait_for("HANDLED 2")
    words = [line.split()[:2] for line in running.stdout.splitlines()]
    assert words == [[word, number] for number in "12" for word in ("BEGAN", "HANDLING", "HANDLED")]
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == 0
    assert running.stderr.count("committed orders[0] up to 1") == 2


def test_an_app_that_cannot_be_imported_waits_for_its_correction(
    shop: Path, start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what is wrong and runs with the next change, one in the same second and of the same length."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    (shop.parent / "go").touch()
    change(shop, "VERSION = 1", "VERSION = (")
    running = start("run", "shop", "--reload")
    running.wait_for("'(' was never closed")
    running.wait_for("the app has stopped with exit code 2; --reload starts it again at the next change")
    change(shop, "VERSION = (", "VERSION = 3")
    running.wait_for("HANDLED 3")
    change(shop, "VERSION = 3", "VERSION = 4")
    running.wait_for("HANDLED 4")
    change(shop, 'say(f"HANDLING {VERSION}")', 'raise ValueError("wrong")')
    running.wait_for("the app has stopped with exit code 1;")
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 0


def test_ctrl_c_in_a_terminal_reaches_both_and_counts_once(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    """The app finishes what has started; twice would leave it."""
    there = terminal(SHOP, "run", "shop", "--reload")
    wait_until(lambda: "HANDLING 1" in there.text, lambda: there.text, LIMIT_S)
    there.press(b"\x03")
    wait_until(lambda: "Stopping (SIGINT)" in there.text, lambda: there.text, LIMIT_S)
    must_stay(lambda: there.process.poll() is None, for_s=1.0)
    (tmp_path / "go").touch()
    assert there.process.wait(LIMIT_S) == 0, there.text
    assert "HANDLED 1" in there.text


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_no_app_outlives_who_started_it(shop: Path, start: Callable) -> None:
    """Killed before it could say anything to the app: that one stops as by SIGTERM."""
    (shop.parent / "go").touch()
    running = start("run", "shop", "--reload")
    running.wait_for("HANDLED 1")
    (pid,) = re.findall(r"BEGAN 1 (\d+)", running.stdout)
    running.process.kill()
    wait_until(lambda: not is_there(int(pid)), "the app has ended", LIMIT_S)
    assert "Stopping (SIGTERM)" in running.stderr


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ("run shop --reload", "run shop"),
        ("run --reload-dir a shop --reload --reload-dir=b --log-level debug", "run shop --log-level debug"),
        ("run --reload -- --reload", "run -- --reload"),
        ("run shop --reset reload --reload", "run shop --reset reload"),
    ],
)
def test_the_app_gets_all_other_arguments(arguments: str, left: str) -> None:
    """As they were typed, and none that would have it watch files itself."""
    assert without_reload(arguments.split()) == left.split()


@pytest.mark.parametrize(
    ("given", "on_spark", "members", "shown"),
    [
        ({"reload": True}, False, "2", "--reload and --members exclude each other"),
        ({"reload": True}, True, None, "--reload and --engine spark exclude each other"),
        ({"reload_dirs": [Path()]}, False, None, "--reload-dir needs --reload"),
        ({"reload": True, "reload_dirs": [Path("/none")]}, False, None, "/none: the folder does not exist"),
    ],
)
def test_what_cannot_be_together_is_refused_by_name(
    given: dict[str, Any], *, on_spark: bool, members: str | None, shown: str
) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigurationError, match=shown):
        Reload(**given).check(members=members, on_spark=on_spark)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that installs it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(ConfigurationError, match=r"the extra \[reload\].*pip install .*'watchfiles>="):
        run_reloading([Path.cwd()], ["ehkafka", "run", "shop", "--reload"])


def test_a_folder_that_cannot_be_watched_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the system has no watches left."""
    watchfiles = pytest.importorskip("watchfiles")

    def watch(*_folders: Path, **_options: Any) -> Iterator[Any]:
        raise OSError("OS file watch limit reached")
        yield

    monkeypatch.setattr(watchfiles, "watch", watch)
    with pytest.raises(ConfigurationError, match=r"watch limit reached.*--reload-dir"):
        run_reloading([Path.cwd()], ["ehkafka", "run", "shop"])


@pytest.mark.usefixtures("folder")
def test_the_apps_own_folder_is_watched_wherever_it_is(tmp_path: Path) -> None:
    """The current one; for a file elsewhere that one's, too; and only the named ones if there are any."""
    elsewhere = tmp_path.parent / "elsewhere"
    given = Reload(reload=True)
    assert given.watched("shop.orders:app") == given.watched("inner/app.py") == (tmp_path,)
    assert given.watched(f"{elsewhere}/app.py:app") == (tmp_path, elsewhere.resolve())
    assert Reload(reload=True, reload_dirs=[Path("src")]).watched("shop") == (Path("src"),)


class Child:
    """A process that ends when the test says so, and what it was sent."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        self.sent: list[int] = []
        self.code: int | None = None
        started.append(self)

    def poll(self) -> int | None:
        """Return how it ended."""
        return self.code

    def send_signal(self, number: int) -> None:
        """Note a signal."""
        self.sent.append(number)

    def terminate(self) -> None:
        """Note the usual one."""
        self.send_signal(signal.SIGTERM)


started: list[Child] = []


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> reloading.Reloading:
    """Return the loop with an app that runs."""
    started.clear()
    monkeypatch.setattr(subprocess, "Popen", Child)
    monkeypatch.setattr(reloading, "has_foreground", lambda: False)
    made = reloading.Reloading(["ehkafka", "run", "shop"])
    assert made.turn(()) is None
    return made


def test_many_changes_while_it_stops_are_one_restart(loop: reloading.Reloading) -> None:
    """A second signal would cut short what the first one lets it finish."""
    for name in ("a.py", "b.py", "a.py"):
        assert loop.turn({name}) is None
    assert (started[0].sent, len(started)) == ([signal.SIGTERM], 1)
    started[0].code = -signal.SIGTERM  # it had not come far enough to take signals
    assert loop.turn(()) is None
    assert loop.turn(()) is None
    assert len(started) == 2


def test_a_signal_while_it_stops_for_a_change_ends_all_and_counts_once(loop: reloading.Reloading) -> None:
    """The next one is passed on, and leaves at once; no change starts anything any more."""
    loop.turn({"a.py"})
    loop.signals.append("SIGTERM")
    loop.turn({"b.py"})
    assert started[0].sent == [signal.SIGTERM]
    loop.signals.append("SIGTERM")
    loop.turn(())
    assert started[0].sent == [signal.SIGTERM] * 2
    started[0].code = 4
    assert (loop.turn({"c.py"}), len(started)) == (4, 1)
