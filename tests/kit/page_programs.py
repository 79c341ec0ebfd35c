"""The programs of a page as a reader saves and runs them, and what the page shows of their output.

A block is a file if its first line is a comment with the file's name. Called by the tests of pages.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING

from tests.kit.pages import ROOT, blocks_of
from tests.kit.running import Running
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import signal
    from pathlib import Path

_FILE_NAME = re.compile(r"(?:#|//) (?P<name>\w+\.(?:py|java))\n")
_COMMAND = "$ "
# What a reader puts there is the address of a broker.
SHOWN_BOOTSTRAP = "localhost:9092"
PRINTED_S = 60.0


def files_of(page: Path) -> dict[str, str]:
    """Return the text of each file that the page shows, by its name."""
    blocks = [block.text for block in blocks_of(page)]
    return {found["name"]: text for text in blocks if (found := _FILE_NAME.match(text))}


def shown_output(page: Path) -> dict[str, str]:
    """Return what the page shows below each command of a console block, by the command."""
    shown = {}
    for block in blocks_of(page):
        if block.language == "console" and "\n" in block.text.strip():
            command, _, output = block.text.partition("\n")
            shown[command.removeprefix(_COMMAND)] = output
    return shown


def save(page: Path, folder: Path, instead: dict[str, str] | None = None) -> None:
    """Write the page's files into the folder, with other words in place of the page's."""
    for name, text in files_of(page).items():
        for shown, real in (instead or {}).items():
            text = text.replace(shown, real)  # noqa: PLW2901
        (folder / name).write_text(text)


class PageProgram(Running):
    """A program of a page in a process of its own. Its streams are files in a folder of its own."""

    def __init__(self, folder: Path, command: list[str], **variables: str) -> None:
        streams = folder / f"streams-{len(list(folder.glob('streams-*')))}"
        streams.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EHKAFKA_")}
        path = os.pathsep.join([str(ROOT), *filter(None, [kept.get("PYTHONPATH")])])
        env = kept | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"} | variables
        super().__init__(streams, (), command=command, cwd=folder, env=env)

    def wait_for_lines(self, count: int) -> None:
        """Wait until it has printed that many lines."""

        def check() -> None:
            assert self.process.poll() is None, self.stdout + self.stderr
            time.sleep(0.05)

        wait_until(
            lambda: self.stdout.count("\n") >= count,
            lambda: self.stdout + self.stderr,
            PRINTED_S,
            meanwhile=check,
        )

    def stop_by(self, number: signal.Signals) -> int:
        """Send it a signal; return its exit code."""
        self.process.send_signal(number)
        return self.end()


def by_key(output: str) -> dict[str, list[str]]:
    """Return the lines of an output by their first word, the key: only those of one key have an order."""
    lines: dict[str, list[str]] = {}
    for line in output.splitlines():
        lines.setdefault(line.split()[0], []).append(line)
    return lines
