"""The set-up that the scripts share: `.venv`, the project's packages in it, a broker's JARs.

Runs before anything is installed: standard library only, and it must at least parse on an old Python
in order to say which one is needed. What a run has set up is written down in `.venv/ehkafka-set-up.json`
with a hash of everything it depends on, so the next run has nothing to do. All scripts share one
environment; each adds to it what it needs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "ehkafka-set-up.json"
OLDEST_PYTHON = (3, 11)
OUTPUT_SHOWN_LINES = 15


class SetUpError(Exception):
    """Something on the machine is missing; the message says what, and what to do."""


def set_up(groups: tuple[str, ...] = (), *, broker: bool = False) -> Path:
    """Make `.venv` hold ehkafka with its command line and these dependency groups; return its Python.

    With `broker` the JARs of Apache Kafka and of Spark's Kafka connector, and Azurite, are in the cache
    afterwards as well.
    """
    require_python()
    installed = installed_groups()
    if installed is None or not installed.issuperset(groups):
        create_virtual_environment()
        install_packages(groups)
        STAMP.write_text(json.dumps({"key": environment_key(), "groups": [*(installed or ()), *groups]}))
    if broker:
        command: list[str | Path] = [PYTHON, "-m", "ehkafka.testing.kafka.jars"]
        step(
            "the JARs of Apache Kafka and of Spark's Kafka connector",
            command,
            "the reason is above; `scripts/check` runs without a broker.",
        )
        command = [PYTHON, "-m", "tests.kit.azurite_install"]
        step("Azurite", command, "the reason is above; `scripts/check` runs without Azurite.")
    return PYTHON


def enter(groups: tuple[str, ...] = (), *, broker: bool = False) -> None:
    """Set up, then start the running script again under the environment's Python."""
    if Path(sys.prefix).resolve() != VENV.resolve():
        python = set_up(groups, broker=broker)
        os.execv(python, [str(python), *sys.argv])  # noqa: S606 - no shell is wanted


def become(run: str, groups: tuple[str, ...]) -> int:
    """Become that file of `scripts`, under the environment's Python, with this checkout's `tests.kit`."""
    python = str(set_up(groups))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [python, str(Path(__file__).with_name(run)), *sys.argv[1:]]
    os.execve(python, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606 - no shell is wanted
    return 0


def main_guard(main: Callable[[], int]) -> None:
    """Run a script's `main` and end with its code; a missing piece is a message, not a traceback."""
    try:
        code = main()
    except SetUpError as error:
        print(f"\n{error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def require_python() -> None:
    """Go on under a Python that is new enough, or say which one to install."""
    if sys.version_info >= OLDEST_PYTHON:
        return
    for minor in range(20, OLDEST_PYTHON[1] - 1, -1):
        python = interpreter(f"3.{minor}")
        if python:
            os.execv(python, [python, *sys.argv])  # noqa: S606
    found = ".".join(map(str, sys.version_info[:3]))
    raise SetUpError(f"ehkafka needs Python 3.11 or newer; {sys.executable} is {found}. Install a newer one.")


def interpreter(minor: str) -> str | None:
    """Return the machine's Python of a version such as 3.12: one on the PATH that runs."""
    python = shutil.which(f"python{minor}")
    runs = python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0  # noqa: PLW1510
    return python if runs else None


def environment_key() -> str:
    """Hash what an installed environment depends on: the project's metadata, the Python, the place."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), sys.version.encode(), str(VENV).encode()]
    parts += [wheel.read_bytes() for wheel in wheels()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def wheels() -> list[Path]:
    """Return the wheel to install, in a copy of the checkout without the package (`scripts/test --wheel`)."""
    return [] if (ROOT / "ehkafka").is_dir() else list((ROOT / "dist").glob("*.whl"))


def installed_groups() -> set[str] | None:
    """Return the groups that earlier runs installed; `None` when the environment is missing or outdated."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return None
    current = PYTHON.exists() and stamp["key"] == environment_key()
    return set(stamp["groups"]) if current else None


def create_virtual_environment() -> None:
    """Create `.venv`, anew when the Python that it was made with has changed."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetUpError(
                f"This Python ({sys.executable}) has no module `{module}`, needed for virtual environments. "
                f"On Debian or Ubuntu apt install python3.{sys.version_info.minor}-venv, then run this again."
            )
    version = ".".join(map(str, sys.version_info[:3]))
    if not works_with_this_python():
        command: list[str | Path] = [sys.executable, "-m", "venv", "--clear", VENV]
        step(f"virtual environment .venv, Python {version}", command, "is the disk full or not writable?")
    # Only pip 25.1 and newer know dependency groups.
    step("pip", [PYTHON, "-m", "pip", "install", "--upgrade", "pip>=25.1"], NETWORK_HINT)


def works_with_this_python() -> bool:
    """Tell whether `.venv` has a Python that runs and is of our version."""
    code = "import pip, sys; print(sys.version)"
    try:
        answer = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)  # noqa: PLW1510
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.strip() == sys.version.strip()


def install_packages(groups: tuple[str, ...]) -> None:
    """Install the project in place, or its wheel, its command line, and the groups."""
    command: list[str | Path] = [PYTHON, "-m", "pip", "install", "--editable", ".[cli]"]
    for wheel in wheels():
        # Another build of the same version would count as installed.
        step("the earlier wheel goes", [PYTHON, "-m", "pip", "uninstall", "--yes", "ehkafka"], "see above.")
        command[-2:] = [f"{wheel}[cli]"]
    if os.environ.get("CI"):
        # pip would compile every file, on one core while nothing else runs; the tests compile what they
        # import once, into a place of their own, and look nowhere else.
        command.append("--no-compile")
    for group in groups:
        command += ["--group", group]
    step(" + ".join(["ehkafka[cli]", *(f"group {group}" for group in groups)]), command, NETWORK_HINT)


NETWORK_HINT = (
    "pip's own words are above. Without a way to pypi.org, set a proxy (HTTPS_PROXY) or an index of your own "
    "(PIP_INDEX_URL), and run this again: what was installed so far is kept."
)


def step(title: str, command: Sequence[object], hint: str, cwd: Path = ROOT) -> None:
    """Run one step of the set-up in a folder, showing what it is at and how long it took."""
    start = time.monotonic()
    live = sys.stdout.isatty()
    print(f"• {title} …", end="" if live else "\n", flush=True)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    output: list[str] = []
    with subprocess.Popen(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line.rstrip())
            if live:
                print(f"\r\033[K• {title} … {line.strip()[:60]}", end="", flush=True)
    took = f"{time.monotonic() - start:.1f} s"
    if process.returncode != 0:
        print("\n" + "\n".join(output[-OUTPUT_SHOWN_LINES:]))
        raise SetUpError(f"Set-up step “{title}” failed after {took}: {hint}")
    print(f"\r\033[K• {title}: {took}" if live else f"  {took}", flush=True)
