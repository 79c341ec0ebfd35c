"""The classes of a test's broker, read and checked once: it then starts in half of the CPU time.

A run of all tests starts Kafka's Java dozens of times, and each start loads the same classes out of the same
JARs. From version 25 on Java keeps them in one file, its AOT cache. `scripts/test` has that file made in the
cache directory (`python -m tests.kit.broker_classes`); tests use it where it is, and go without where it is
not. Its name says for which Java and which JARs it was made, and Java itself looks again.

Called by the scripts, and by a fixture of all tests before the first broker starts.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer

from ehkafka.errors import EhkafkaError, EndpointError, MissingExtraError
from ehkafka.spark.java_home import cache_directory
from ehkafka.testing.kafka import broker as brokers
from ehkafka.testing.kafka.jars import KAFKA, kafka_jars
from ehkafka.testing.kafka.java import find_java

if TYPE_CHECKING:
    from collections.abc import Iterator

FLAGS = brokers.JAVA_FLAGS["test"]
OLDEST_JAVA = 25  # the first that makes such a file in one step
# A file that does not fit is no error: what Java says of it would stand between the lines of a log.
QUIET = ("-Xlog:aot=off", "-Xlog:cds=off")
# Java writes the file when it ends, which takes seconds of one core.
END_S = 180.0


@contextmanager
def brokers_with_classes() -> Iterator[None]:
    """Let all brokers of this process start with what is kept, if it is."""
    path = kept_classes()
    flags = () if path is None or not path.exists() else (*QUIET, f"-XX:AOTCache={path}")
    with _flags_added(*flags):
        yield


def kept_classes() -> Path | None:
    """Return where the classes of this machine's Java and JARs belong; `None` where none can be kept."""
    jars = sorted((cache_directory() / KAFKA.folder).glob("*.jar"))
    if not jars:
        return None
    try:
        java = find_java()
        release = (java.resolve().parent.parent / "release").read_text()
    except (MissingExtraError, OSError):
        return None
    if _version(release) < OLDEST_JAVA:
        return None
    files = [(str(jar), jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars]
    made_of = repr((str(java), release, FLAGS, files))
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    return cache_directory() / "test-classes" / f"{KAFKA.name}-{digest}.aot"


def keep(path: Path) -> None:
    """Run a broker as tests do, and keep the classes that it took. Raises `EhkafkaError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        with _flags_added(*QUIET, f"-XX:AOTCacheOutput={made}"):
            _use_a_broker()
        _require_usable(made)
        # Of another Java, or of other JARs.
        for older in path.parent.glob(f"{KAFKA.name}-*.aot"):
            older.unlink(missing_ok=True)
        made.replace(path)


def main() -> int:
    """Keep them unless they are kept. Brokers start without, so the worst is a sentence."""
    path = kept_classes()
    if path is not None and not path.exists():
        try:
            keep(path)
        except (EhkafkaError, OSError) as error:
            sys.stdout.write(
                f"Brokers will start as slowly as ever: their classes could not be kept. {error}\n"
            )
    return 0


@contextmanager
def _flags_added(*flags: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        mine = {**brokers.JAVA_FLAGS, "test": (*FLAGS, *flags)}
        patch.setattr(brokers, "JAVA_FLAGS", mine)
        yield


def _use_a_broker() -> None:
    """Start one, write, read and commit, and wait until it has ended by itself."""
    with brokers.KafkaBroker(start_timeout_s=END_S) as broker:
        broker.create_topic("t", 2)
        where = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        producer = Producer({**where, "enable.idempotence": True})
        for number in range(100):
            producer.produce("t", b"%d" % number, b"%d" % number)
        producer.flush(30.0)
        group = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**where, **group})
        consumer.subscribe(["t"])
        if not consumer.consume(100, 30.0):
            raise EndpointError(f"The broker hands nothing out:\n{broker.log_tail()}")
        consumer.commit(asynchronous=False)
        consumer.close()
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGTERM)  # `stop` would kill it before it has written the file
        deadline_s = time.monotonic() + END_S
        while broker.is_running and time.monotonic() < deadline_s:
            time.sleep(0.1)


def _require_usable(made: Path) -> None:
    """Raise `EndpointError` unless Java takes the file."""
    command = [str(find_java()), *FLAGS, f"-XX:AOTCache={made}", "-XX:AOTMode=on"]
    command += ["-cp", ":".join(map(str, kafka_jars())), "-version"]
    tried = subprocess.run(command, capture_output=True, text=True, timeout=END_S, check=False)
    if tried.returncode != 0:
        raise EndpointError(f"Java does not take {made.name}: {tried.stdout}{tried.stderr}")


def _version(release: str) -> int:
    """Return 25 for `JAVA_VERSION="25.0.2"`, 0 for what does not say."""
    found = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return int(found.group(1)) if found else 0


if __name__ == "__main__":
    sys.exit(main())
