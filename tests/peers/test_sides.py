"""The sides: their TOML files are whole, and a side that breaks the protocol is named with its own words."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path
from typing import Any

import pytest

READY = 'print("""{"ready": true}""", flush=True)\n'


def test_each_side_has_a_program_and_modes_for_works_of_the_plan(peers: Any) -> None:
    """A wrong word in a TOML file would show after half an hour only."""
    catalogue, all_rows = peers("catalogue"), peers("plan").rows(quick=False)
    sides = catalogue.all_sides()
    assert {"ours", "bare", "hand", "fast_stream", "aio_kafka"} <= {side.name for side in sides}
    titles = [mode.title for side in sides for mode in side.modes]
    assert len(titles) == len(set(titles))
    for side in sides:
        assert side.program.exists(), side.name
        for mode in side.modes:
            assert any((side, mode) in row.measurements(sides) for row in all_rows), mode.title
    assert all(row.measurements(sides) for row in all_rows)


def test_only_our_own_side_imports_the_package(peers: Any) -> None:
    """The others run in an environment that lacks it, and each package is pinned."""
    for side in peers("catalogue").all_sides():
        if side.checkout or side.language != "python":
            continue
        assert all("==" in package for package in side.packages), side.name
        tree = ast.parse(side.program.read_text())
        imported = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [name for name in imported if name.split(".")[0] == "ehkafka"], side.name
        assert side.name not in {name.split(".")[0] for name in imported}, f"{side.name}.py imports itself"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('title = "x"', "'modes' is missing"),
        ('title = "x"\n[[modes]]\ntitle = "a"\nworks = ["fly"]\norder = "key"', "works are noop"),
        ('title = "x"\n[[modes]]\ntitle = "a"\nworks = ["noop"]\norder = "some"', "order is one of key"),
        ('title = "x"\n[[modes]]\ntitle = "a"\nworks = ["noop"]\norder = "key"\nspeed = 9', "speed"),
        ('title = "x"\n[[modes]]\ntitle = "a"\nworks = []\norder = "key"\n[cannot]\nfly = "no"', "has works"),
    ],
)
def test_a_wrong_toml_file_is_named(peers: Any, tmp_path: Path, text: str, complaint: str) -> None:
    """With what is wrong."""
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises(peers("catalogue").CatalogueError, match=rf"wrong\.toml: .*{complaint}"):
        peers("catalogue").all_sides(tmp_path)


def lines_of(peers: Any, monkeypatch: pytest.MonkeyPatch, code: str) -> list[Any]:
    """Return the first two lines of a side with this code."""
    module = peers("process")
    monkeypatch.setattr(module, "READY_S_MAX", 5.0)
    monkeypatch.setattr(module, "SILENT_S_MAX", 0.5)
    with module.SideProcess("a side", [sys.executable, "-c", code], {}, os.environ) as side:
        side.wait_until_ready()
        lines = side.lines()
        return [next(lines), next(lines)]


@pytest.mark.parametrize(
    ("code", "complaint"),
    [
        ("raise SystemExit('no broker here')", r"exit code 1(.|\n)*no broker here"),
        ("print('starting up', flush=True)", "is for JSON lines alone, and has 'starting up'"),
        ("print('[1]', flush=True)", r"a line is a JSON object, and one was '\[1\]'"),
        ("print('{}', flush=True)", 'its first line must be {"ready": true}'),
        (READY + "import time; time.sleep(9)", "said nothing for 0.5 s"),
        (READY + "print('{\"handled\": 1}', flush=True)", "needs numbers for at_s and handled"),
        (READY + 'print(\'{"at_s": 1, "handled": 1, "latency_ms": [3, 2]}\', flush=True)', "latency_ms is"),
    ],
)
def test_a_side_that_breaks_the_protocol_is_named(
    peers: Any, monkeypatch: pytest.MonkeyPatch, code: str, complaint: str
) -> None:
    """In one sentence, and with the last lines of its standard error."""
    with pytest.raises(peers("process").SideError, match=f"a side: (.|\n)*{complaint}"):
        lines_of(peers, monkeypatch, code)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_side_ends_with_what_it_has_started(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even one that does not listen."""
    monkeypatch.setattr(peers("process"), "STOP_S", 0.5)
    code = (
        "import json, signal, subprocess, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '60'])\n" + READY + "number = 0\n"
        "while True:\n"
        "    number += child.pid\n"
        "    print(json.dumps({'at_s': time.monotonic(), 'handled': number}), flush=True)\n"
        "    time.sleep(0.02)\n"
    )
    first, second = lines_of(peers, monkeypatch, code)
    stat = Path(f"/proc/{second.handled - first.handled}/stat")
    # A process without a parent may stay in the list after its end.
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"
