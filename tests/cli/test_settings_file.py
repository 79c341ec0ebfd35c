"""Which file of settings is read, and what no such file may be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ehkafka.cli.settings.given import Given
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.usefixtures("folder")


def test_a_file_that_is_only_in_the_folder_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could send the environment's key to any server, so an option or a variable must name it."""
    Path("ehkafka.toml").write_text("[endpoint]\nbootstrap = 'evil.example:9092'")
    given = Given.read()
    assert (given.file, given.layer.way) == (None, None)
    monkeypatch.setenv("EHKAFKA_CONFIG", "ehkafka.toml")
    given = Given.read()
    assert given.layer.way is not None
    assert (given.file, given.layer.way.origin) == (Path("ehkafka.toml"), "ehkafka.toml: endpoint.bootstrap")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"[" * 3000, "not TOML"),
        (b"[consumer]\na = " + b"[" * 3000 + b"]" * 3000, "nested too deeply"),
        (b"[consumer]\n" + b"a." * 3000 + b"b = 1", "nested too deeply"),
        (b"[app]\ngroup = '\xff'", "not UTF-8"),
        (b"[app]\ngroup = 'a\0b'", "not TOML"),
        (b"[app]\ndrain_s = 1\ndrain_s = 2", "not TOML: Cannot overwrite a value"),
        (b"[app]\ndrain_s = " + b"9" * 5000, "too large"),
        (b"#" * (1024 * 1024 + 1), "more than 1048576 bytes"),
    ],
    ids=["tables", "arrays", "keys", "encoding", "NUL", "twice", "digits", "huge"],
)
def test_what_is_no_settings_file_is_reported_in_one_line(
    content: bytes, shown: str, folder: Path, ehkafka_command: Command
) -> None:
    """And the command ends with 2."""
    (folder / "f.toml").write_bytes(content)
    ended = ehkafka_command("config", "--config", "f.toml")
    assert (ended.returncode, ended.stderr.count("\n"), ended.stdout) == (2, 1, ""), ended.stderr
    assert ended.stderr.startswith("ehkafka: f.toml ")
    assert shown in ended.stderr


@pytest.mark.parametrize("place", ["/dev/stdin", "/dev/fd/0"])
def test_a_pipe_is_read_once(place: str) -> None:
    """As from a command that decrypts: `--config <(sops -d …)`."""
    ended = _config(place, b"[app]\ndrain_s = 7")
    assert ended.returncode == 0, ended.stderr
    assert f"{place}: app.drain_s" in ended.stdout.decode()
    empty = _config(place, b"")
    assert empty.returncode == 2
    assert b"a pipe that ended without a byte" in empty.stderr


def test_a_file_that_was_named_must_be_readable(folder: Path) -> None:
    """One sentence with the system's reason."""
    for file, shown in (
        (folder / "prod.toml", "prod.toml cannot be read: No such file"),
        (folder, "cannot be read: Is a directory"),
        (Path("a\0b"), "a NUL"),
    ):
        with pytest.raises(ConfigurationError, match=shown):
            Given.read(file)


def _config(place: str, content: bytes) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-P", "-m", "ehkafka.cli", "config", "--config", place]
    environment = {**os.environ, "EHKAFKA_BOOTSTRAP": "a:1"}
    return subprocess.run(
        command, input=content, capture_output=True, check=False, env=environment, timeout=60
    )
