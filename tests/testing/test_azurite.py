from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from ehkafka.errors import EndpointError
from tests.kit import azurite_install

if TYPE_CHECKING:
    from pathlib import Path

FAKE_NODE = """#!{python}
import sys
print("v{version}.0.0")
"""
FAKE_NPM = """#!{python}
import sys
print("npm ERR! https://user:secret@registry/azurite", file=sys.stderr)
sys.exit(7)
"""


def fake(folder: Path, name: str, text: str) -> None:
    """Put a program into a folder that is the whole PATH."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the whole PATH, and leave the wheel and the cache out."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("EHKAFKA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(azurite_install, "_wheel_node", lambda: None)
    return folder


def test_a_failed_installation_leaves_nothing_and_tells_no_secret(path: Path, tmp_path: Path) -> None:
    """What npm says is repeated without the registry's password; the next run begins anew."""
    fake(path, "node", FAKE_NODE.format(python=sys.executable, version=20))
    fake(path, "npm", FAKE_NPM.format(python=sys.executable))
    with pytest.raises(EndpointError, match="npm ended with 7") as found:
        azurite_install.azurite_main()
    assert "secret" not in str(found.value)
    assert [entry.suffix for entry in (tmp_path / "cache").iterdir()] == [".lock"]


def test_the_lock_file_pins_all_of_azurite() -> None:
    """Each package by a digest, none by an address, and Azurite in the version that is asked for."""
    locked = json.loads((azurite_install.PACKAGES / "package-lock.json").read_text())["packages"]
    assert locked["node_modules/azurite"]["version"] == azurite_install.AZURITE_VERSION
    packages = [one for path, one in locked.items() if path]
    assert all(one["integrity"].startswith("sha512-") for one in packages)
    assert not any(one.get("resolved") for one in packages)
