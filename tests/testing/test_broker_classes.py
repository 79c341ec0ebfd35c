"""The classes that are kept for brokers: where, for which Java and JARs, and that brokers take them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import EndpointError
from ehkafka.testing.kafka import broker as brokers
from ehkafka.testing.kafka.jars import KAFKA
from tests.kit import broker_classes

if TYPE_CHECKING:
    from ehkafka.testing.kafka.broker import KafkaBroker


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Java's `release`, beside one JAR in a cache of the test's own; nothing of them runs."""
    (tmp_path / "cache" / KAFKA.folder).mkdir(parents=True)
    (tmp_path / "cache" / KAFKA.folder / "kafka.jar").write_bytes(b"jar")
    (tmp_path / "java" / "bin").mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    release = tmp_path / "java" / "release"
    release.write_text('IMPLEMENTOR="x"\nJAVA_VERSION="25.0.2"\n')
    monkeypatch.setenv("EHKAFKA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(broker_classes, "find_java", lambda: tmp_path / "java" / "bin" / "java")
    return release


def test_a_running_broker_has_taken_them(kafka: KafkaBroker) -> None:
    """Java maps the file; one that it does not take would cost time and be seen by nobody."""
    path = broker_classes.kept_classes()
    if path is None or not path.exists():
        pytest.skip("no classes are kept: python -m tests.kit.broker_classes")
    assert str(path) in Path(f"/proc/{kafka.pid}/maps").read_text()


def test_another_java_or_other_jars_have_classes_of_their_own(java: Path) -> None:
    """Java would refuse them, and brokers start as slowly as without."""
    names = [broker_classes.kept_classes()]
    java.write_text('JAVA_VERSION="25.0.3"\n')
    names.append(broker_classes.kept_classes())
    jar = java.parents[1] / "cache" / KAFKA.folder / "kafka.jar"
    os.utime(jar, ns=(1, 1))
    names.append(broker_classes.kept_classes())
    jar.with_name("more.jar").touch()
    names.append(broker_classes.kept_classes())
    assert None not in names
    assert len(set(names)) == 4


def test_only_what_java_takes_is_kept_and_what_was_for_another_goes(
    java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that broke off may leave half a file."""
    path = broker_classes.kept_classes()
    assert path is not None
    path.parent.mkdir()
    older = path.with_name("kafka-0123.aot")
    older.touch()

    def used() -> None:
        Path(brokers.JAVA_FLAGS["test"][-1].partition("=")[2]).write_text("classes")

    monkeypatch.setattr(broker_classes, "_use_a_broker", used)
    monkeypatch.setattr(broker_classes, "kafka_jars", list)
    script = java.parent / "bin" / "java"
    script.chmod(0o700)
    script.write_text("#!/bin/sh\necho half a file; exit 1\n")
    with pytest.raises(EndpointError, match="half a file"):
        broker_classes.keep(path)
    assert [file.name for file in path.parent.iterdir()] == [older.name]
    script.write_text("#!/bin/sh\n")
    broker_classes.keep(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
