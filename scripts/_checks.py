"""What `scripts/test` and `scripts/check` run once the environment is there."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from _environment import PYTHON, ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Each may start a broker and a Spark of its own, half a gigabyte together.
PROCESSES_MAX = 8
# Tests start hundreds of Python programs: none compiles again what another has, on machines either that let
# no program write next to the sources.
COMPILED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(ROOT / ".venv" / "bytecode")}
# The linters' caches; nothing is written there once the run has ended, which the mark shows.
MYPY_CACHE = ROOT / ".mypy_cache"
LINTED = MYPY_CACHE / "linted"
# The engine's core, its contract on the embedded broker, and the drop-in.
QUICK = {
    "aio",
    "architecture",
    "checkpoints",
    "codecs",
    "consumer",
    "contract",
    "embedded",
    "endpoint",
    "events",
    "handlers",
    "headers",
    "intake",
    "lanes",
    "outputs",
    "positions",
    "progress",
    "prose",
    "records",
    "recovery",
    "run",
    "simulation",
    "telemetry",
    "typing",
    "wording",
    "workers",
}

# About half of the simulator's seeds.
QUICK_SEEDS = {
    "EHKAFKA_SIMULATION_SEEDS": "40",
    "EHKAFKA_SIMULATION_SEEDS_WITH_BATCHES": "40",
    "EHKAFKA_SIMULATION_SEEDS_WITH_TRANSACTIONS": "60",
}


def lint() -> int:
    """Run every linter and type checker, all of them even after a failure; return the first bad code."""
    LINTED.unlink(missing_ok=True)
    # Ruff finds Python files by their ending; the scripts that people type have none.
    scripts = [f"scripts/{path.name}" for path in sorted((ROOT / "scripts").iterdir()) if is_python(path)]
    codes = [
        run("ruff", "check", ".", *scripts),
        run("ruff", "format", "--check", ".", *scripts),
        run("mypy"),
    ]
    if MYPY_CACHE.is_dir():
        LINTED.touch()
    return next((code for code in codes if code), 0)


class LintBeside:
    """The linters in a process of their own, whose output is shown once it is asked for."""

    def __init__(self, *, wanted: bool) -> None:
        # Tests that measure time begin while these still run: theirs is the first turn.
        code = "import os, sys, _checks; os.nice(5); sys.exit(_checks.lint())"
        command = [str(PYTHON), "-c", code]
        self._process = (
            subprocess.Popen(
                command, cwd=ROOT / "scripts", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if wanted
            else None
        )

    def code(self) -> int:
        """Wait for the linters, show what they said, and return the first bad code."""
        if self._process is None:
            return 0
        output, _ = self._process.communicate()
        print(output, flush=True)
        return self._process.returncode


def prepare() -> None:
    """Do what many processes would do each for itself."""
    with ThreadPoolExecutor() as pool:
        for ended in [pool.submit(compile_tests), pool.submit(keep_classes)]:
            ended.result()


def compile_tests() -> None:
    """Compile all tests once, before as many processes as run them do it each for itself.

    What cannot be compiled is reported by the run itself.
    """
    command = [str(PYTHON), "-m", "pytest", "--collect-only", "-qq", "-n", "0"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **COMPILED}, check=False, stdout=subprocess.DEVNULL)


def keep_classes() -> None:
    """Keep the classes that brokers take, unless an earlier run has: each then starts twice as fast.

    What could not be kept is a sentence; the tests then go without.
    """
    command = [str(PYTHON), "-m", "tests.kit.broker_classes"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, **COMPILED}, check=False)


def pytest(
    *arguments: str,
    each_core: int = 2,
    processes_max: int = PROCESSES_MAX,
    dist: str = "worksteal",
    **environment: str,
) -> int:
    """Run the tests, in so many processes for each core (`-n 0`: in one); return pytest's code.

    They mostly wait: for brokers, for limits of time, for programs that they have started. `dist` says how
    they are handed out: "loadfile" starts the fewest servers (`tests/kit/schedule.py`).
    """
    processes = str(min(each_core * (os.cpu_count() or 1), processes_max))
    return run("pytest", "-n", processes, "--dist", dist, *arguments, **COMPILED, **environment)


def quick_rooms() -> tuple[list[str], str]:
    """Return the folders of tests that a quick run takes, and a sentence on what it leaves out."""
    rooms = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    left_out = sorted(rooms - QUICK)
    return [f"tests/{room}" for room in sorted(rooms & QUICK)], (
        f"left out: {', '.join(left_out)}, and elsewhere about half of the simulator's seeds and "
        "what is slow or needs an Apache Kafka, Azurite or Spark; scripts/test runs everything"
    )


def run(module: str, *arguments: str, **environment: str) -> int:
    """Run a tool of the environment where it can be seen; return its code."""
    start = time.monotonic()
    print(f"\n── {' '.join((module, *arguments))}", flush=True)
    command = [str(PYTHON), "-m", module, *arguments]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False).returncode
    print(
        f"── {module}: {'passed' if code == 0 else f'ended with {code}'}, {time.monotonic() - start:.1f} s",
        flush=True,
    )
    return code


def is_python(path: Path) -> bool:
    """Tell whether a file without an ending is a Python program."""
    return path.is_file() and not path.suffix and b"python" in path.read_bytes()[:40]
