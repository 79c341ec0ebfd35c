"""What commands write: columns that hostile texts do not move, and a reader that has gone (`| head`)."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from ehkafka.cli.output import columns
from tests.kit.running import COMMAND, RUN_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from subprocess import CompletedProcess


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_check_without_a_reader_still_says_by_its_code_what_it_found(
    ehkafka_command: Callable[..., CompletedProcess[str]], form: tuple[str, ...]
) -> None:
    """No word of the pipe: the exit code is that of a broker that cannot be reached."""
    target = ("--endpoint", "127.0.0.1:1", "--topic", "orders", "--timeout", "1")

    ended = ehkafka_command("check", *target, *form, is_read=False)

    assert (ended.returncode, ended.stderr) == (3, "")


def test_a_view_without_a_reader_ends_well(
    ehkafka_command: Callable[..., CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of `ehkafka config` was wrong."""
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", "127.0.0.1:1")

    ended = ehkafka_command("config", is_read=False)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("closed", "arguments", "code"),
    [
        ("<&-", ("produce", "orders", "--timeout", "1"), 3),
        (">&-", ("config",), 0),
        ("<&- >&- 2>&-", ("topics", "--timeout", "1"), 3),
        (">/dev/full", ("config",), 3),
        (">/dev/full", ("config", "--json"), 3),
    ],
    ids=["stdin", "stdout", "all", "full", "full-json"],
)
def test_a_stream_that_is_closed_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str, arguments: tuple[str, ...], code: int
) -> None:
    """Some supervisors close them: it is empty to read, and takes every word."""
    monkeypatch.setenv("EHKAFKA_BOOTSTRAP", "127.0.0.1:1")

    command = ["sh", "-c", f'"$@" {closed}', "sh", *COMMAND, *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=RUN_S, check=False)

    assert (ended.returncode, b"Traceback" in ended.stderr) == (code, False)


def test_columns_stand_whatever_their_cells_hold() -> None:
    """Wide characters, characters without a width and control characters move no column."""
    wide, thin, hostile = "\N{CJK UNIFIED IDEOGRAPH-4E00}" * 5, "e\N{COMBINING ACUTE ACCENT}", "\x1b[2J\r\n"
    lines = columns(("TEXT", "COUNT", "END"), [(wide, 1, "x"), (thin, None, "x"), (hostile, 12_345, "x")])
    assert all(line.isprintable() for line in lines.splitlines())
    assert len({cell_len(line) for line in lines.splitlines()[1:]}) == 1
