"""What `scripts/test` and `scripts/check` run once the environment is there."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from _environment import PYTHON, ROOT

if TYPE_CHECKING:
    from pathlib import Path


def lint() -> int:
    """Run every linter and type checker, all of them even after a failure; return the first bad code."""
    # Ruff finds Python files by their ending; the scripts that people type have none.
    scripts = [f"scripts/{path.name}" for path in sorted((ROOT / "scripts").iterdir()) if is_python(path)]
    codes = [
        run("ruff", "check", ".", *scripts),
        run("ruff", "format", "--check", ".", *scripts),
        run("mypy"),
    ]
    return next((code for code in codes if code), 0)


def pytest(*arguments: str, **environment: str) -> int:
    """Run the tests, in two processes unless the arguments say otherwise (`-n 0`); return pytest's code.

    Not one for each core: what they start, brokers among it, needs some as well.
    """
    return run("pytest", "-n", "2", "--dist", "worksteal", *arguments, **environment)


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
