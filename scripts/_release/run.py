"""The steps of a release, in their order."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from _environment import NETWORK_HINT, ROOT, SetUpError, step

from _release import archives, tree, tried

OUT = ROOT / "build" / "release"
WORK = ROOT / "build" / "release-work"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


def main(description: str) -> int:
    """Read the command line, and build unless the checkout is refused; return the exit code."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--extra", action="append", choices=tried.extras(), metavar="NAME", help="try this one"
    )
    parser.add_argument("--tag", help="refuse what must not be published under that tag")
    parser.add_argument("--dry-run", action="store_true", help="build nothing")
    asked = parser.parse_args()
    extras = asked.extra or tried.extras()
    state = tree.read()
    refused = tree.refusals(state, asked.tag)
    if asked.dry_run:
        print(f"Builds ehkafka {state.version} of this commit into {OUT} and tries: {', '.join(extras)}.")
        print("\n".join(f"Refused: {reason}" for reason in refused) or "Nothing is refused.")
        return 2 if refused else 0
    if refused:
        raise SetUpError("\n".join(refused))
    release(extras, state.version)
    return 0


def release(extras: list[str], version: str) -> None:
    """Build, check and try; leave what is published in `OUT`."""
    began_s = time.monotonic()
    os.environ["SOURCE_DATE_EPOCH"] = tree.git("log", "-1", "--format=%ct").strip()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    tools = environment_of_tools(WORK / "tools")
    built = archives.build(tools, version, WORK / "build")
    archives.check(built, version)
    step("twine check", [tools, "-m", "twine", "check", "--strict", *built], "twine's words are above.")
    for path in built:
        shutil.copy(path, OUT)
    shutil.copy(REQUIREMENTS, OUT / "build-requirements.txt")
    (wheel,) = OUT.glob("*.whl")
    not_run = try_out(tools, extras, wheel, version)
    sums = [f"{archives.digest(path)}  {path.name}\n" for path in sorted(OUT.iterdir())]
    (OUT / "SHA256SUMS").write_text("".join(sums))
    print(f"ehkafka {version}: {len(sums)} files and SHA256SUMS in {OUT}, {time.monotonic() - began_s:.0f} s")
    for minor in not_run:
        print(f"Python {minor}: not run, since this machine does not have it")


def environment_of_tools(folder: Path) -> Path:
    """Return the Python of an environment with the pinned tools, made anew where they have changed."""
    python, stamp = folder / "bin" / "python", folder / "pins"
    pins = f"{sys.version}\n{archives.digest(REQUIREMENTS)}"
    if not stamp.is_file() or stamp.read_text() != pins:
        make = [sys.executable, "-m", "venv", "--clear", folder]
        step("environment of the tools", make, "is the disk full or not writable?")
        install = [python, "-m", "pip", "install", "--require-hashes", "-r", REQUIREMENTS]
        step("tools, by their hashes", install, NETWORK_HINT)
        stamp.write_text(pins)
    return python


def try_out(tools: Path, extras: list[str], wheel: Path, version: str) -> list[str]:
    """Try each extra on this Python, and the core on others; return the Pythons that are not here."""
    not_run = []
    for minor, base in tried.pythons().items():
        if base is None:
            not_run.append(minor)
            tried.resolve(tools, minor, wheel, extras)
            continue
        is_running = base == sys.executable
        for extra in extras if is_running else [tried.CORE]:
            folder = WORK / f"{extra}-{minor}"
            python = tried.environment(tools, base, wheel, extra, folder)
            tried.run_programs(python, extra, folder)
            if is_running:
                target = OUT / f"ehkafka-{version}-{extra}.cdx.json"
                tried.bill_of_materials(tools, python, version, target)
            shutil.rmtree(folder)
    return not_run
