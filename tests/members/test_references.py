"""Where members find the app, however the program was started; what they cannot find is said how to fix."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.running import COMMAND, ended
from tests.members.conftest import LIMIT_S, MAIN, SHOP, Program

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

# No broker is needed for what is refused before one is asked.
AWAY = """
    import ehkafka
    endpoint = ehkafka.Endpoint.kafka("127.0.0.1:1")

    def make():
        app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest", connect_s=0.5)

        @app.handler("orders")
        def handle(record):
            pass

        return app
"""


def run_python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return ended(sys.executable, *arguments, cwd=folder)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "shop:app", "--members", "2"),
        ("run", "inner/shop.py:app", "--members", "2"),
        ("run", "inner.shop:app", "--members", "2"),
    ],
)
def test_the_command_names_it(
    tmp_path: Path, write: Callable[..., Path], start: Callable, arguments: tuple[str, ...]
) -> None:
    """By module, file or package."""
    write(SHOP, name="inner/shop.py")
    program = start(*arguments, parts=(SHOP,))
    assert program.wait_until_ready()
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0


@pytest.mark.parametrize(
    "arguments",
    [("-m", "inner.shop"), ("-c", "import inner.shop as it; it.app.run(members=2)"), ("other.py",)],
)
def test_python_runs_it(tmp_path: Path, write: Callable[..., Path], arguments: tuple[str, ...]) -> None:
    """As a module's main, from a program that was typed in, and from another file that imports it."""
    write(SHOP, MAIN, name="inner/shop.py")
    write("from inner.shop import app\nif __name__ == '__main__':\n    app.run(members=2)\n", name="other.py")
    program = Program(tmp_path, arguments, command=[sys.executable], in_session=True)
    try:
        program.wait_for("STARTED", 2, LIMIT_S)
        program.signal(signal.SIGTERM)
        assert program.end(LIMIT_S) == 0
    finally:
        program.close()


def test_an_app_that_was_typed_in_is_refused(tmp_path: Path, write: Callable[..., Path]) -> None:
    """There is no file to import."""
    code = "import shop; app = shop.make(); app.run(members=2)"
    write(AWAY)
    done = run_python(tmp_path, "-c", code)
    assert "the app is not in a file" in done.stderr.splitlines()[-1]


HIDDEN = """
    if __name__ == "__main__":
        import ehkafka.errors
        other = app
        del app
        other.run(members=2)
"""
REGISTERED = """
    if __name__ == "__main__":
        @app.on_start
        def more():
            pass

        app.run(members=2)
"""
UNFINDABLE = """
    if __name__ == "__main__":
        def position(topic, partition):
            return 0

        app.configure(start=position)
        app.run(members=2)
"""
LAMBDA = """
    if __name__ == "__main__":
        app.configure(start=lambda topic, partition: 0)
        app.run(members=2)
"""
OTHERWISE = """
    if __name__ == "__main__":
        app.run(members=2)
    else:
        {}
"""


@pytest.mark.parametrize(
    ("more", "words"),
    [
        # Members import the program anew, and would run it anew.
        ("app.run(members=2)", ["starts its app while a member imports it", "put the start under"]),
        (HIDDEN, ["A member found no app named 'other'", "shop.py", "at the top level"]),
        (REGISTERED, ["differs from the supervisor's in: on_start more", "at the top level of"]),
        (UNFINDABLE, ["A member cannot import what a setting names", "position", "top level of a module"]),
        (LAMBDA, ["members=: the setting start cannot be sent to another process", "no lambda"]),
        (OTHERWISE.format("1 / 0"), ["A member cannot import /", "shop.py: ZeroDivisionError", "shop.py:"]),
        (OTHERWISE.format("sys.exit(3)"), ["ended the process while a member imported it"]),
    ],
    ids=["unguarded", "hidden", "registered", "unfindable", "lambda", "raising", "exiting"],
)
def test_what_members_cannot_import_is_said_once(
    tmp_path: Path, write: Callable[..., Path], more: str, words: list[str]
) -> None:
    """All members end with the code of a wrong setting, whatever each of them said."""
    write(SHOP, more)
    done = run_python(tmp_path, "shop.py")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ehkafka.errors.ConfigurationError: ")
    assert [word for word in words if word not in last] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--members", "0"), "--members=0: give a number of processes from 1 to 256, or 'auto'"),
        (("--members", "2", "--hung-s", "0"), "hung_s=0.0: give seconds from 1 to"),
        (("--hung-s", "30"), "--hung-s needs --members"),
        (("--members", "2", "--engine", "spark"), "--engine spark does not work with --members"),
        (("--health-file", "nowhere/file"), "nowhere/file cannot be written"),
        (("--members", "2", "--health-file", "nowhere/file"), "nowhere/file cannot be written"),
        (("--members", "2", "--set", "group.instance.id=a"), "group.instance.id"),
    ],
)
def test_bad_options_are_one_line_and_code_2(
    tmp_path: Path, write: Callable[..., Path], arguments: tuple[str, ...], words: str
) -> None:
    """No member is started, and no broker asked."""
    write(AWAY, "app = make()")
    done = ended(*COMMAND, "run", "shop:app", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


IN_THREAD = """
    import threading, sys

    def other():
        try:
            app.run(members=2)
        except Exception as error:
            sys.stderr.write(f"ehkafka.errors.{type(error).__name__}: {error}")

    threading.Thread(target=other).start()
"""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("make().run(members=2)", "made inside a function or class"),
        (
            "if __name__ == '__main__':\n    make().run(members=2)",
            "Make the app at the top level of a module",
        ),
        ("app.run(members=0)", "members=0: give a number of processes from 1 to 256, or 'auto'"),
        ("app.run(hung_s=5)", "hung_s and members_min need members="),
        ("app.run(members=2, hung_s='x')", "hung_s='x': give seconds"),
        ("app.run(members=2, health_file=7)", "health_file=7: give the path of a file"),
        ("ehkafka.App(group='g', endpoint=endpoint, start=0).run(members=2)", "has no handler"),
        (IN_THREAD, "works only in the main thread"),
    ],
)
def test_bad_calls_are_refused(tmp_path: Path, write: Callable[..., Path], call: str, words: str) -> None:
    """With what to give instead."""
    write(AWAY, "app = make()", call)
    done = run_python(tmp_path, "shop.py")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ehkafka.errors.ConfigurationError: ")
    assert words in last
