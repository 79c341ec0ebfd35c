"""Environments with one release of PySpark each, under the Python of the platform that has it.

What is not ours in them is installed by pip once and kept in the cache directory (`pyspark-4.1.1-…`), where
it appears by one rename, under a lock. On top of that each caller gets an environment of its own with the
wheel of this checkout. Called by tests on their thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from ehkafka.errors import EndpointError, MissingExtraError
from ehkafka.spark.java_home import cache_directory
from tests.kit.spark_home import make_spark_home

CHECKOUT = Path(__file__).parents[2]
# Databricks 17.3 LTS, and Fabric's Runtime 2.0. Other releases run under the Python of the tests.
PYTHONS = {"4.0": "3.12", "4.1": "3.13"}
# PySpark comes as 430 MB of sources.
INSTALL_S = 1_200.0
# What the tests need that a long run repeats there.
_OF_TESTS = ("pytest", "hypothesis", "trustme", "cryptography")
_GROUPS_OF_TESTS = ("broker", "azurite", "web", "metrics")


@dataclass(frozen=True, slots=True)
class SparkVersion:
    """An environment: its interpreter, and what SPARK_HOME is to be."""

    python: Path
    home: Path

    def environment(self) -> dict[str, str]:
        """Return this process's variables, changed for a program of that environment."""
        python = str(self.python)
        return _variables() | {
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "SPARK_HOME": str(self.home),
        }


def spark_version(release: str, folder: Path) -> SparkVersion:
    """Make an environment in `folder` with that release (`4.0` for its newest patch) and this checkout.

    Raises `MissingExtraError` where the machine does not have the platform's Python, `EndpointError` where
    pip fails.
    """
    cached = _cached(release)
    python = folder / "python" / "bin" / "python"
    _run([cached, "-m", "venv", "--without-pip", folder / "python"])
    _run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist"])
    [ours], [theirs] = (one.parents[1].glob("lib/python*/site-packages") for one in (python, cached))
    (ours / "pyspark_of_the_cache.pth").write_text(f"{theirs}\n")
    [wheel] = (folder / "dist").glob("*.whl")
    options = ("install", "-q", "--no-deps", "--no-index", "--no-compile")
    _run([cached, "-m", "pip", "--python", python, *options, wheel])
    return SparkVersion(python, make_spark_home(folder, theirs / "pyspark"))


def _cached(release: str) -> Path:
    """Return the interpreter of an environment without ehkafka, which this call may have to make."""
    base = _python(PYTHONS.get(".".join(release.split(".")[:2])))
    found = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    groups = found["dependency-groups"]
    packages = [f"pyspark[connect]=={release}.*", "pyarrow>=16", "pandas>=2.2,<3"]
    packages += found["project"]["dependencies"]
    packages += [one for one in groups["test"] if isinstance(one, str) and one.startswith(_OF_TESTS)]
    packages += [one for name in _GROUPS_OF_TESTS for one in groups[name]]
    digest = hashlib.sha256("\n".join([*packages, str(base)]).encode()).hexdigest()
    home = cache_directory() / f"pyspark-{release}-{digest[:8]}"
    if not home.exists():
        home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (home.parent / f"{home.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The process that held the lock before may have made it.
            if not home.exists():
                _install(base, packages, home)
    return home / "bin" / "python"


def _install(base: Path, packages: list[str], home: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f"{home.name}.", suffix=".part", dir=home.parent))
    try:
        _run([base, "-m", "venv", staging])
        _run([staging / "bin" / "python", "-m", "pip", "install", "-q", *packages])
        staging.rename(home)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _python(version: str | None) -> Path:
    """Return the machine's Python of that version: one of the PATH's or of pyenv's."""
    if version is None:
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = shutil.which(f"python{version}")
    of_pyenv = sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    for candidate in (*([Path(named)] if named else []), *of_pyenv):
        # pyenv's own commands of that name may run nothing.
        if subprocess.run([candidate, "-c", "import venv"], check=False, capture_output=True).returncode == 0:
            return candidate
    raise MissingExtraError(
        f"Python {version} is neither on the PATH nor one of pyenv's: the platform that has this PySpark runs"
        " it. Install it, or leave EHKAFKA_OLDER_PYSPARK empty."
    )


def _variables() -> dict[str, str]:
    """Return this process's variables but those of its own modules.

    The kept environment has its packages compiled where they are: under a prefix each run would do it anew.
    """
    ours = {"PYTHONPATH", "PYTHONPYCACHEPREFIX"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def _run(command: list[str | Path]) -> None:
    done = subprocess.run(
        command,
        cwd=CHECKOUT,
        env=_variables(),
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if done.returncode != 0:
        shown = " ".join(map(str, command))
        raise EndpointError(f"{shown} ended with {done.returncode}: {done.stderr.strip()[-1500:]}")
