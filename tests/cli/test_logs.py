"""`ehkafka run` and its log: as JSON, from members, too, and with its level from the environment."""

from __future__ import annotations

import json
import signal
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_run import SHOP
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = dedent(SHOP)
FAILING = SOURCE.replace("    print(", "    raise ValueError('bad order')\n    print(", 1)
# It logs for itself, in addition to the framework.
TAKEN = "    logging.getLogger('shop').info('taken', extra={'at': record.offset()})\n"
LOGGING = SOURCE.replace("import path", "import logging, path").replace(
    "    while not", f"{TAKEN}    while not"
)


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the log's lines, of which each is JSON."""
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_of_the_log_is_json(tmp_path: Path, start_ehkafka: Callable) -> None:
    """Those of the app's own loggers, and those at a stop by Ctrl-C."""
    (tmp_path / "shop.py").write_text(LOGGING)
    running = start_ehkafka("run", "shop", "--log-format", "json", "--log-level", "INFO")
    running.wait_for("orders[0]@9")
    running.process.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    assert running.end() == 0
    found = lines_of(running.stderr)
    assert {"ehkafka", "shop"} <= {line["logger"] for line in found}
    assert sorted(line["at"] for line in found if line["logger"] == "shop") == list(range(10))
    (stopped,) = [line for line in found if line.get("event") == "AppStopped"]
    assert (stopped["level"], stopped["exit_code"]) == ("INFO", 0)


def test_what_ends_a_command_is_a_line_of_json_too(tmp_path: Path, ehkafka_command: Callable) -> None:
    """With the stack of the handler's error in its own line, or of an unexpected one as its exception."""
    (tmp_path / "shop.py").write_text(FAILING)
    ended = ehkafka_command("run", "shop", "--log-format", "json")
    assert ended.returncode == 1
    found = lines_of(ended.stderr)
    failed = next(line for line in found if line.get("event") == "HandlerFailed")
    assert "raise ValueError('bad order')" in failed["stack"]
    assert (found[-1]["level"], "bad order" in found[-1]["message"]) == ("ERROR", True)
    (tmp_path / "shop.py").write_text(SOURCE.replace("producer = ", "raise OSError('no disk')\n    x = "))
    ended = ehkafka_command("run", "shop", "--log-format", "json")
    assert ended.returncode == 70
    last = lines_of(ended.stderr)[-1]["exception"]
    assert (last["type"], "no disk" in last["text"]) == ("OSError", True)


@pytest.mark.parametrize("level", ["warning", "WARNING"])
def test_the_environment_says_the_level(
    tmp_path: Path, ehkafka_command: Callable, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """In any spelling; the option stands above it."""
    monkeypatch.setenv("EHKAFKA_LOG_LEVEL", level)
    (tmp_path / "shop.py").write_text(SOURCE)
    (tmp_path / "go").touch()
    quiet = ehkafka_command("run", "shop", "--until-caught-up")
    loud = ehkafka_command("run", "shop", "--until-caught-up", "--log-level", "info")
    assert (quiet.returncode, loud.returncode) == (0, 0)
    assert "Consuming orders" in loud.stderr
    assert "INFO" not in quiet.stderr


MEMBERS = """
    import logging
    import ehkafka

    endpoint = ehkafka.Endpoint.embedded({"orders": 2})
    app = ehkafka.App(group="shop", endpoint=endpoint, start="earliest")

    @app.on_assigned
    def assigned(partition):
        print("PRINTED", partition)

    @app.handler("orders")
    def handle(record): ...
"""


def test_members_write_json_with_their_number(tmp_path: Path, start_ehkafka: Callable) -> None:
    """A signal to the supervisor has each log its state; what they print keeps its number in front."""
    (tmp_path / "shop.py").write_text(dedent(MEMBERS))
    running = start_ehkafka("run", "shop", "--members", "2", "--log-format", "json")
    running.wait_for_match(r"Member \d \(process \d+\) is ready", 2, 60.0)
    running.process.send_signal(signal.SIGUSR1)
    running.wait_for("State (SIGUSR1): running", 2)
    running.process.send_signal(signal.SIGTERM)
    assert running.end(30) == 0
    found = lines_of(running.stderr)
    states = [line for line in found if line.get("event") == "StateReport"]
    assert sorted(line["member"] for line in states) == [1, 2]
    assert any("member" not in line for line in found)
    wait_until(lambda: "[1] PRINTED" in running.stdout or "[2] PRINTED" in running.stdout)
