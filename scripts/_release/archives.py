"""Builds sdist and wheel from the commit, twice, and compares what they hold with what git tracks."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import zipfile
from typing import TYPE_CHECKING

from _environment import SetUpError, step

from _release.tree import git

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

# Spark finds data sources by modules at the top: the wheel moves these there.
REGISTER = "ehkafka/spark/register/"
METADATA = ("METADATA", "RECORD", "WHEEL", "entry_points.txt")
LICENSES = ("LICENSE", "ehkafka/http/page/uplot/LICENSE")
SDIST_TOO = (".gitignore", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")


def build(python: Path, version: str, work: Path) -> list[Path]:
    """Return the sdist and the wheel that was built from it; a second build must give the same bytes.

    The second one is made from the commit, elsewhere: so the sdist lacks nothing, and no path or time is in.
    """
    shutil.rmtree(work, ignore_errors=True)
    first, second = work / "first", work / "second"
    sdist = hatchling(python, "sdist", export(work / "tree"), first)
    step("sdist, unpacked", ["tar", "-xf", sdist, "-C", first], "tar's words are above.")
    wheel = hatchling(python, "wheel", first / f"ehkafka-{version}", first)
    again = export(work / "elsewhere" / "tree")
    for kind, archive in {"sdist": sdist, "wheel": wheel}.items():
        if digest(hatchling(python, kind, again, second)) != digest(archive):
            raise SetUpError(f"Two builds of {archive.name} differ: compare {first} with {second}.")
    return [sdist, wheel]


def export(folder: Path) -> Path:
    """Write the commit's files into a new folder; return it."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git("archive", "--output", str(archive), "HEAD")
    step("the commit's files", ["tar", "-xf", archive, "-C", folder], "tar's words are above.")
    return folder


def hatchling(python: Path, kind: str, source: Path, out: Path) -> Path:
    """Build one archive of a folder by the pinned hatchling; return it."""
    command = [python, "-m", "hatchling", "build", "--target", kind, "--directory", out]
    step(f"{kind} of {source.name}", command, "hatchling's words are above.", cwd=source)
    (archive,) = out.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return archive


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def wheel_names(tracked: Iterable[str], version: str) -> set[str]:
    """Return what a wheel must hold: each tracked file of the package, metadata and licences."""
    info = f"ehkafka-{version}.dist-info"
    package = {name.removeprefix(REGISTER) for name in tracked if name.startswith("ehkafka/")}
    return package | {f"{info}/{name}" for name in (*METADATA, *(f"licenses/{name}" for name in LICENSES))}


def sdist_names(tracked: Iterable[str], version: str) -> set[str]:
    """Return what an sdist must hold: what the wheel is built from."""
    package = {name for name in tracked if name.startswith("ehkafka/")}
    return {f"ehkafka-{version}/{name}" for name in package | {"PKG-INFO", *SDIST_TOO}}


def check(archives: Iterable[Path], version: str) -> None:
    """Raise `SetUpError` where an archive lacks a file, or has one that does not belong there."""
    tracked = git("ls-files").splitlines()
    for archive in archives:
        if archive.suffix == ".whl":
            wanted = wheel_names(tracked, version)
            with zipfile.ZipFile(archive) as opened:
                held = set(opened.namelist())
        else:
            wanted = sdist_names(tracked, version)
            with tarfile.open(archive) as opened_tar:
                held = {one.name for one in opened_tar if one.isfile()}
        if held != wanted:
            raise SetUpError(
                f"{archive.name} lacks {sorted(wanted - held)} and has {sorted(held - wanted)} too many: "
                "change [tool.hatch.build] of pyproject.toml."
            )
