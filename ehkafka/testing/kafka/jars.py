"""Puts JARs into a cache directory, with Python alone: a Kafka broker's, and Spark's Kafka connector's.

Responsible for the class path: `jgo` resolves the Maven artefacts and downloads them, no Java and no
Maven take part. Only jgo's resolver is used: building a jgo "environment" would fetch a whole JDK 11
in order to classify JARs, and a plain class path needs no classification.

A set of JARs appears in the cache by one rename, after every file has shown the SHA-256 that
`jar_digests.json` has for it; a lock file lets the first of several processes download while the others
wait. Never writes outside the cache. Called by `KafkaBroker` on its caller's thread, and as
`python -m ehkafka.testing.kafka.jars` by the scripts. After a change of versions `--pin` writes the digests
anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ehkafka.errors import EhkafkaError, EndpointError, MissingExtraError
from ehkafka.spark.java_home import cache_directory
from ehkafka.testing.kafka.java import INSTALL_HINT, find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jgo.maven import Artifact


@dataclass(frozen=True, slots=True)
class JarSet:
    """What is downloaded together; `complete` takes the coordinates as the whole of it."""

    name: str
    version: str
    coordinates: tuple[str, ...]
    title: str
    complete: bool = False

    @property
    def folder(self) -> str:
        """Its folder's name in the cache: another one as soon as anything about it changes."""
        digest = hashlib.sha256("+".join(self.coordinates).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:8]}"


KAFKA_VERSION = "4.2.0"
LOG4J_VERSION = "2.25.1"
KAFKA = JarSet(
    "kafka",
    KAFKA_VERSION,
    (
        f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
        # The `!` keeps log4j's own dependency management out; with it an old kafka-clients is picked.
        f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J_VERSION}!",
        f"org.apache.logging.log4j:log4j-core:{LOG4J_VERSION}!",
    ),
    "Apache Kafka",
)
CONNECTOR_VERSION = "4.2.0"
# The rest of what the connector names comes with Spark itself.
CONNECTOR = JarSet(
    "spark-kafka",
    CONNECTOR_VERSION,
    (
        f"org.apache.spark:spark-sql-kafka-0-10_2.13:{CONNECTOR_VERSION}",
        # Its own version of this one is not on Maven Central.
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
    ),
    "Spark's Kafka connector",
    complete=True,
)
MAVEN_CENTRAL_URL = "https://repo.maven.apache.org/maven2"
DOWNLOADS_AT_ONCE = 8
REQUEST_TIMEOUT_S = 30
ATTEMPTS = 2
DIGESTS = Path(__file__).with_name("jar_digests.json")
# In a set's folder: the digests that its files were found to have.
CHECKED = "checked.json"


class RefusedDownloadError(EndpointError):
    """A file that is not the one that was pinned; trying again is the user's decision."""


def kafka_jars(report: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the broker's JARs, downloading them (45 MB) when the cache has none.

    `report` gets a short line for each finished file. Raises `MissingExtraError` when jgo is not
    installed and `EndpointError` when the download fails.
    """
    return _cached(KAFKA, report)


def connector_jars(report: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Return the JARs of `format("kafka")` for `spark.jars` (10 MB); otherwise as `kafka_jars`."""
    return _cached(CONNECTOR, report)


def _cached(wanted: JarSet, report: Callable[[str], None]) -> list[Path]:
    cache = cache_directory()
    home = cache / wanted.folder
    jars, pinned = _finished_jars(home), digests_of(wanted)
    if jars is None or _checked_digests(home) != pinned:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(cache / f"{home.name}.lock"):
            # The process that held the lock before may have finished the very same download.
            jars = _finished_jars(home)
            if jars is None or _checked_digests(home) != pinned:
                jars = _install(wanted, home, report)
    return jars


def digests_of(wanted: JarSet) -> dict[str, str]:
    """Return the SHA-256 of each of its JARs, by file name."""
    pinned: dict[str, str] = json.loads(DIGESTS.read_text()).get(wanted.folder, {})
    return pinned


def _checked_digests(home: Path) -> object:
    try:
        return json.loads((home / CHECKED).read_text())
    except (OSError, ValueError):
        return None


def _digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _finished_jars(home: Path) -> list[Path] | None:
    """Return the JARs that the manifest names, or `None` when one was removed or cut since."""
    try:
        sizes: dict[str, int] = json.loads((home / "jars.json").read_text())
        complete = all((home / name).stat().st_size == size for name, size in sizes.items())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return [home / name for name in sizes] if complete else None


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the kernel drops it when the process dies, so none is ever stale."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(wanted: JarSet, home: Path, report: Callable[[str], None]) -> list[Path]:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _install_once(wanted, home, report)
        except (MissingExtraError, RefusedDownloadError):
            raise
        except Exception as error:  # jgo raises requests' errors, RuntimeError, AssertionError, …
            if attempt == ATTEMPTS:
                raise _download_error(wanted, error) from error
            report(f"failed ({type(error).__name__}), trying once more")
    raise AssertionError  # the last attempt has returned or raised


def _install_once(wanted: JarSet, home: Path, report: Callable[[str], None]) -> list[Path]:
    """Download into a directory of our own and rename it as the last act."""
    staging = Path(tempfile.mkdtemp(prefix=f"{home.name}.", suffix=".part", dir=home.parent))
    try:
        jars = staging / "jars"
        jars.mkdir(mode=0o700)
        sizes, pinned = {}, digests_of(wanted)
        for downloaded in _download(wanted, staging / "repository", report):
            _refuse_another(wanted, downloaded, pinned)
            sizes[downloaded.name] = downloaded.stat().st_size
            downloaded.rename(jars / downloaded.name)
        if missing := sorted(pinned.keys() - sizes.keys()):
            raise RefusedDownloadError(
                f"{missing[0]} of {wanted.title} {wanted.version} is pinned and was not among what "
                f"{_shown_url()} offers, so nothing was kept: look at the mirror in EHKAFKA_MAVEN_URL."
            )
        (jars / "jars.json").write_text(json.dumps(sizes, indent=1, sort_keys=True))
        (jars / CHECKED).write_text(json.dumps(pinned))
        shutil.rmtree(home, ignore_errors=True)  # an incomplete one, or there is none
        jars.rename(home)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return [home / name for name in sorted(sizes)]


def _download(wanted: JarSet, repository: Path, report: Callable[[str], None]) -> list[Path]:
    report("resolving the Maven artefacts")
    artifacts = _resolve(wanted, repository)
    paths = []
    with ThreadPoolExecutor(DOWNLOADS_AT_ONCE, "ehkafka-jars") as pool:
        for done in as_completed([pool.submit(artifact.resolve) for artifact in artifacts]):
            paths.append(done.result())
            report(f"{len(paths)}/{len(artifacts)} {paths[-1].name}")
    return paths


def _resolve(wanted: JarSet, repository: Path) -> list[Artifact]:
    """Return what Maven would put on the run-time class path; fetches POMs only."""
    try:
        from jgo.maven import MavenContext, PythonResolver  # noqa: PLC0415 - an optional dependency
        from jgo.parse import Endpoint  # noqa: PLC0415
    except ImportError as error:
        message = f"The JARs of {wanted.title} are resolved by jgo, which is not installed; {INSTALL_HINT}"
        raise MissingExtraError(message) from error
    resolver = PythonResolver()
    context = MavenContext(
        resolver=resolver,
        repo_cache=repository,
        local_repos=[],
        remote_repos={"central": maven_url()},
        timeout=REQUEST_TIMEOUT_S,
    )
    parts = Endpoint.parse("+".join(wanted.coordinates)).coordinates
    dependencies = [context.create_dependency(part) for part in parts]
    if wanted.complete:
        return [each.artifact for each in dependencies]
    named, transitive = resolver.resolve(dependencies)
    needed = [*named, *(each for each in transitive if each.scope in ("compile", "runtime"))]
    return [each.artifact for each in needed]


def maven_url() -> str:
    """Return `EHKAFKA_MAVEN_URL` (a mirror inside a company), else Maven Central."""
    return os.environ.get("EHKAFKA_MAVEN_URL", MAVEN_CENTRAL_URL).rstrip("/")


def _refuse_another(wanted: JarSet, jar: Path, pinned: dict[str, str]) -> None:
    """Refuse another file than the pinned one; jgo only warns, of what the repository did not announce."""
    found, wants = _digest(jar), pinned.get(jar.name, "none, for it is not pinned")
    if found != wants:
        raise RefusedDownloadError(
            f"{jar.name} of {wanted.title} {wanted.version} came from {_shown_url()} with the SHA-256 "
            f"{found} instead of {wants}, so it was refused and deleted: look at the network's proxy and the "
            "mirror in EHKAFKA_MAVEN_URL, and try again."
        )


def _shown_url() -> str:
    # A mirror's URL may carry a password.
    return re.sub(r"//[^/@]*@", "//***@", maven_url())


def _download_error(wanted: JarSet, error: Exception) -> EndpointError:
    url = _shown_url()
    cause = str(error).replace(maven_url(), url)  # jgo's errors quote it
    return EndpointError(
        f"The JARs of {wanted.title} {wanted.version} could not be downloaded from {url} "
        f"({type(error).__name__}: {cause}). Check the network and its proxy (HTTPS_PROXY, "
        "REQUESTS_CA_BUNDLE), or name a Maven mirror in EHKAFKA_MAVEN_URL, and try again; nothing "
        "unfinished was kept."
    )


def _pin() -> None:
    """Write the digests of what Maven offers now: a developer who changes a version reads the difference."""
    with tempfile.TemporaryDirectory() as folder:
        found = {
            wanted.folder: {
                jar.name: _digest(jar) for jar in _download(wanted, Path(folder) / wanted.name, print)
            }
            for wanted in (KAFKA, CONNECTOR)
        }
    DIGESTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


def main() -> int:
    """Fill the cache and say what a broker will run on."""
    if sys.argv[1:] == ["--pin"]:
        _pin()
    try:
        for wanted in (KAFKA, CONNECTOR):
            jars = _cached(wanted, lambda line: print(f"  {line}", flush=True))  # noqa: T201 - a script's progress
            print(f"{wanted.title} {wanted.version}: {len(jars)} JARs in {jars[0].parent}")  # noqa: T201
        print(f"Kafka is run by {find_java()}")  # noqa: T201
    except EhkafkaError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
