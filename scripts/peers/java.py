"""A side that runs on a JVM: its JARs come from Maven, its one source file is compiled by the machine's JDK.

Only such a side needs a JDK (17 or newer); nothing else here needs Java but the broker, which brings its own.
The JARs are resolved as the broker's are, and each must have the SHA-256 that the side's TOML file pins.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError
from ehkafka.testing.kafka import jars
from peers.environments import EnvironmentFailedError

if TYPE_CHECKING:
    from collections.abc import Mapping

LAST_LINES = 6


def command(settings: Mapping[str, Any], program: Path, cache: Path) -> list[str]:
    """Return what starts the side, without its options; makes what is not there.

    Raises `EnvironmentFailedError`.
    """
    java, javac = _jdk(settings["title"])
    folder = cache / program.stem
    class_path, classes = folder / "jars", folder / "classes"
    if not _has(class_path, settings["jars"]):
        _download(settings, class_path)
    _compile(javac, program, class_path, classes)
    separated = os.pathsep.join([str(classes), str(class_path / "*")])
    return [java, *settings.get("java_flags", ()), "-cp", separated, settings["main_class"]]


def _jdk(title: str) -> tuple[str, str]:
    """Return the machine's own `java` and `javac`, which belong together."""
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=str(Path(home) / "bin")) if home else shutil.which("javac")
    java = javac and shutil.which("java", path=str(Path(javac).resolve().parent))
    if not javac or not java:
        raise EnvironmentFailedError(
            f"{title} needs a JDK to compile its side, and there is no javac in JAVA_HOME or on the PATH: "
            "install one (17 or newer), or leave this side out with --sides."
        )
    return java, javac


def _has(folder: Path, digests: Mapping[str, str]) -> bool:
    found = {path.name: _digest(path) for path in folder.glob("*.jar")}
    return found == dict(digests)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(settings: Mapping[str, Any], folder: Path) -> None:
    """Put the JARs into a folder by one rename, after each has shown its pinned digest."""
    title, pinned = settings["title"], settings["jars"]
    wanted = jars.JarSet(folder.parent.name, settings["version"], tuple(settings["artifacts"]), title)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as staging:
        ready = Path(staging) / "jars"
        ready.mkdir()
        try:
            found = jars._download(wanted, Path(staging) / "repository", lambda _: None)  # noqa: SLF001
        except EhkafkaError as error:
            raise EnvironmentFailedError(str(error)) from error
        except Exception as error:  # jgo raises requests' errors, RuntimeError, AssertionError, …
            raise EnvironmentFailedError(
                f"The JARs of {title} cannot be downloaded from {jars.maven_url()} "
                f"({type(error).__name__}: {error}): look at the network and its proxy."
            ) from error
        for path in found:
            if _digest(path) != pinned.get(path.name):
                raise EnvironmentFailedError(
                    f"{path.name} of {title} is not the file that is pinned: look at the mirror."
                )
            path.rename(ready / path.name)
        if missing := sorted(pinned.keys() - {path.name for path in ready.iterdir()}):
            raise EnvironmentFailedError(
                f"{missing[0]} of {title} is pinned and Maven resolves it no longer."
            )
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)


def _compile(javac: str, program: Path, class_path: Path, classes: Path) -> None:
    """Compile the source unless this very source was."""
    stamp, key = classes / "made.json", {"source": _digest(program), "javac": javac}
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == key:
        return
    shutil.rmtree(classes, ignore_errors=True)
    classes.mkdir(parents=True)
    compiled = subprocess.run(
        [javac, "-d", str(classes), "-cp", str(class_path / "*"), str(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    if compiled.returncode:
        words = "\n".join(compiled.stderr.strip().splitlines()[-LAST_LINES:])
        raise EnvironmentFailedError(f"{program.name} does not compile:\n{words}")
    stamp.write_text(json.dumps(key), encoding="utf-8")
