"""`ehkafka run`: signals, exit codes and what it shows."""

from __future__ import annotations

import signal
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import ehkafka

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

OWN_FOLDER = str(Path(ehkafka.__file__).parent)
# Its own broker, ten records of ten keys, and a handler that ends when the file `go` is there.
SHOP = """
    import pathlib, time
    from confluent_kafka import Producer
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 1})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest")

    @app.on_start
    def produce():
        producer = Producer(endpoint.client_properties())
        for number in range(10):
            producer.produce("orders", key=f"k{number}", value=b"{}")
        producer.flush(10)

    @app.handler("orders", workers=10)
    def handle(record):
        print("STARTED", record.where, flush=True)
        while not pathlib.Path("go").exists():
            time.sleep(0.01)

    @app.on_stop
    def report():
        print("REPORT", flush=True)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """Write the app and return its folder."""
    (tmp_path / "shop.py").write_text(dedent(SHOP))
    return tmp_path


@pytest.mark.parametrize(
    ("number", "quiet"), [(signal.SIGINT, ("--log-level", "error")), (signal.SIGTERM, ())]
)
def test_the_first_signal_drains(
    number: signal.Signals, quiet: tuple[str, ...], shop: Path, start_ehkafka: Callable
) -> None:
    """All that was received is finished and committed; the drain is counted down, whatever the log level."""
    running = start_ehkafka("run", "shop:app", *quiet)
    running.wait_for("orders[0]@9")
    running.process.send_signal(number)
    running.wait_for("Draining: 10 records unfinished")
    (shop / "go").touch()
    assert running.end() == 0
    assert "press Ctrl-C again to stop at once" in running.stderr or number == signal.SIGTERM
    assert ("committed orders[0] up to 10; no record left" in running.stderr) is not bool(quiet)
    assert ("Assigned" in running.stderr) is not bool(quiet)
    assert "REPORT" in running.stdout


@pytest.mark.usefixtures("shop")
def test_the_second_signal_leaves_at_once(start_ehkafka: Callable) -> None:
    """What was not finished is named, nothing of it is committed, and the exit code tells."""
    running = start_ehkafka("run", "shop.py:app")
    running.wait_for("orders[0]@9")
    running.process.send_signal(signal.SIGINT)
    running.wait_for("Draining")
    running.process.send_signal(signal.SIGINT)
    assert running.end() == ehkafka.errors.UnfinishedError.exit_code
    message = running.stderr.splitlines()[-1]
    assert message.startswith("ehkafka: The app stopped while handlers were running")
    assert "orders[0]@0" in message
    assert "Traceback" not in running.stderr


def test_a_failing_handler_is_named_with_its_line(tmp_path: Path, ehkafka_command: Callable) -> None:
    """The user's own error shows with the record and the place that raised it."""
    failing = dedent(SHOP).replace("    print(", "    raise ValueError('bad order')\n    print(", 1)
    (tmp_path / "shop.py").write_text(failing)
    ended: subprocess.CompletedProcess[str] = ehkafka_command("run", "shop", "--log-level", "error")
    assert ended.returncode == ehkafka.errors.HandlerFailedError.exit_code
    line = failing.splitlines().index("    raise ValueError('bad order')") + 1
    assert "ehkafka: Handler 'handle' failed at orders[0]@" in ended.stderr
    assert "ValueError: bad order" in ended.stderr
    assert f"shop.py:{line} in handle" in ended.stderr.splitlines()[-1]
    # The log has the stack of the user's code, once; none of ours.
    assert ended.stderr.count("Traceback") == 1
    assert OWN_FOLDER not in ended.stderr


def test_an_unexpected_error_keeps_its_traceback(tmp_path: Path, ehkafka_command: Callable) -> None:
    """An unexpected error is shown whole and ends with a code of its own."""
    (tmp_path / "shop.py").write_text(
        dedent(SHOP).replace("producer = ", "raise OSError('no disk')\n    x = ")
    )
    ended = ehkafka_command("run", "shop")
    assert ended.returncode == 70
    assert "Traceback" in ended.stderr
    assert "OSError: no disk" in ended.stderr
    assert ended.stderr.endswith("#an-unexpected-error.\n")
