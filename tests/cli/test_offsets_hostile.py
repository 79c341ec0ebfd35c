"""`ehkafka offsets`, `lag` and `owners` with what should not be there: secrets, hostile names, other logs."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from ehkafka.checkpoints.checkpoint import Checkpoint
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata, read_checkpoint
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.topics import commits, produce
from ehkafka.progress.metadata import MOVED, LogFacts, encode
from tests.cli.test_offsets import HOST, commit_from_outside, ehkafka, reset, sdk_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

SECRET = "c2VjcmV0/a2V5+Zm9yIG5vYm9keQ=="
WRITTEN_MS = 1_800_000_000_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with ten records in each of two partitions."""
    with EmbeddedBroker({"t": 2}) as broker:
        for partition in range(2):
            produce(broker.bootstrap, "t", [(b"k", b"v")] * 10, partition=partition, timestamp_ms=WRITTEN_MS)
        yield broker


def import_from(broker: EmbeddedBroker, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Import without a watch, and see it through."""
    options = ["--from", str(folder), "--watch-for", "0", "--yes", *arguments]
    return ehkafka(broker, "offsets", "import", "t", *options)


def mirror(folder: Path, partition: int, checkpoint: Checkpoint, *, host: str = HOST) -> None:
    """Write what an app's mirror would."""
    FileStore(folder).write(
        Layout(host, "g").name("t", partition),
        metadata=checkpoint_metadata(checkpoint),
        body=checkpoint_body(checkpoint),
        expected=None,
    )


def test_a_name_that_may_be_a_container_is_no_folder_to_make(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a connection string an export to a container would end up in a folder of its name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EHKAFKA_MIRROR_CONNECTION_STRING", raising=False)
    monkeypatch.delenv("EHKAFKA_MIRROR_CONNECTION_STRING_FILE", raising=False)
    reset(broker, "--yes", "--to", "4")
    code, _, error = ehkafka(broker, "offsets", "export", "t", "--to", "checkpoints", "--yes")
    assert code == 2
    assert "set EHKAFKA_MIRROR_CONNECTION_STRING" in error
    assert "give ./checkpoints" in error
    assert list(tmp_path.iterdir()) == []
    assert ehkafka(broker, "offsets", "export", "t", "--to", "./checkpoints", "--yes")[0] == 0
    monkeypatch.setenv("EHKAFKA_MIRROR_CONNECTION_STRING", f"AccountName=me;AccountKey={SECRET}")
    code, _, error = ehkafka(broker, "offsets", "diff", "t", "--from", "checkpoints")
    assert code == 2
    assert "'checkpoints' may be a folder on this disk" in error
    assert SECRET not in error


def test_a_place_that_excludes_itself_is_refused(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """--partition means: only this one. Nothing else moves, and one that does not exist is named."""
    code, _, error = reset(broker, "--yes", "--to", "0=4", "--partition", "1")
    assert (code, "not among --partition" in error) == (2, True)
    sdk_folder(tmp_path, {0: "4"})
    code, _, error = reset(broker, "--yes", "--to", "4", "--partition", "9")
    assert (code, "partition 9: the topic has no such partition" in error) == (3, True)
    code, _, error = import_from(broker, tmp_path, "--partition", "9")
    assert (code, "partition 9: the topic has no such partition" in error) == (3, True)
    assert commits(broker.bootstrap, "g", "t")[0].offset < 0
    export = ["offsets", "export", "t", "--to", f"{tmp_path}/new", "--partition", "9", "--yes"]
    code, _, error = ehkafka(broker, *export)
    assert (code, "no partition 9" in error) == (3, True)
    assert not (tmp_path / "new").exists()


def test_hostile_names_steer_no_terminal_and_break_no_json(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Other programs write into a container: names of blobs are shown escaped, and JSON stays JSON."""
    sdk_folder(tmp_path / "a", {0: "4"}, host="home\x1b[2J\u202e.net")
    code, text, error = import_from(broker, tmp_path / "a")
    assert code == 0, error
    assert "\x1b" not in text + error
    assert "\u202e" not in text + error
    assert r"\x1b[2J" in text
    folder = tmp_path / "b" / os.fsdecode(b"n\xff") / "t" / "$default" / "checkpoint"
    folder.mkdir(parents=True)
    (folder / "0").write_text('{"sequencenumber": "4"}')
    for arguments in (["--json"], []):
        code, text, error = ehkafka(broker, "offsets", "diff", "t", "--from", str(tmp_path / "b"), *arguments)
        assert code == 0, error
        assert arguments == [] or orjson.loads(text)["partitions"][0]["sdk"] == 5


def test_an_export_leaves_the_mirror_of_an_app_alone(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Without its body the app would take it for another program's and never write it again."""
    reset(broker, "--yes", "--to", "4")
    mirror(tmp_path, 0, Checkpoint(next_offset=3, owner="app-1"))
    mirror(tmp_path, 1, Checkpoint(next_offset=9, owner="app-1"))
    export = ["offsets", "export", "t", "--to", str(tmp_path), "--to-namespace", HOST, "--to-group", "g"]
    code, text, _ = ehkafka(broker, *export, "--yes")
    assert code == 0
    assert text.count("not written: the mirror of an ehkafka app lies there") == 2
    for partition, offset in ((0, 3), (1, 9)):
        blob = FileStore(tmp_path).read(Layout(HOST, "g").name("t", partition))
        assert blob is not None
        found = read_checkpoint(blob.body)
        assert found is not None
        assert found.next_offset == offset


def test_a_commit_ahead_of_its_log_is_not_exported(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A client that begins there would wait for events that are not there yet, and pass them over."""
    commit_from_outside(broker, 0, 25)
    commit_from_outside(broker, 1, 4)
    code, text, _ = ehkafka(
        broker, "offsets", "export", "t", "--to", f"{tmp_path}/c", "--to-namespace", HOST, "--yes"
    )
    assert code == 0
    assert "not written: the commit is 15 ahead of the log's end" in text
    assert [path.name for path in (tmp_path / "c").rglob("*") if path.is_file()] == ["1"]


def test_an_export_outside_of_its_folder_is_refused(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """No prefix leads out of the folder that was named."""
    commit_from_outside(broker, 0, 4)
    export = ["offsets", "export", "t", "--to", f"{tmp_path}/c", "--format", "eph", "--yes", "--prefix"]
    for prefix in ("../../", f"{tmp_path}/"):
        code, _, error = ehkafka(broker, *export, prefix)
        assert (code, "not the name of a file in" in error) == (3, True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_diff_shows_the_mirror_of_this_namespace(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Two namespaces mirror groups of one name into one container: theirs is not shown for ours."""
    commit_from_outside(broker, 0, 4)
    mirror(tmp_path, 0, Checkpoint(next_offset=4, owner="app-1"), host="127.0.0.1")
    mirror(tmp_path, 0, Checkpoint(next_offset=9, owner="app-2"), host="zz.example")
    code, text, error = ehkafka(broker, "offsets", "diff", "t", "--from", str(tmp_path), "--json")
    assert code == 0, error
    assert [one["mirror"] for one in orjson.loads(text)["partitions"]] == [4, None]


@pytest.mark.parametrize(("anchor_ms", "code"), [(WRITTEN_MS, 0), (WRITTEN_MS + 1, 3)])
def test_a_mirror_of_another_log_is_not_imported(
    broker: EmbeddedBroker, tmp_path: Path, anchor_ms: int, code: int
) -> None:
    """The topic was made anew under its name: the record before the position is another one."""
    mirror(tmp_path, 0, Checkpoint(next_offset=5, facts=LogFacts(witness=(4, anchor_ms)), owner="app-1"))
    found, _, error = import_from(broker, tmp_path, "--from-group", "g")
    assert found == code, error
    if code:
        assert "partition 0: the mirror belongs to another log: the record at offset 4 had" in error
    assert commits(broker.bootstrap, "g", "t")[0].offset == (-1001 if code else 5)


def test_a_reset_to_the_very_commit_begins_anew_there(broker: EmbeddedBroker) -> None:
    """What was finished above it is shown, handled again, and nowhere brought back from."""
    commit_from_outside(broker, 0, 4, encode(4, LogFacts(), ((5, 8),), 0, 1000).text or "")
    text = ehkafka(broker, "lag", "t")[1]
    assert "3 finished above it" in text
    code, text, error = reset(broker, "--yes", "--to", "4", "--partition", "0", "--json")
    assert code == 0, error
    found = orjson.loads(text)
    assert found["moves"][0]["finished_again"] == 3
    assert found["after"]["partitions"][0]["finished_above"] == 0
    there = commits(broker.bootstrap, "g", "t")[0]
    assert (there.offset, there.metadata) == (4, MOVED)
    assert "There is nothing to move" in ehkafka(broker, "offsets", "reset", "t", "--to", "0=4")[1]


def test_each_look_of_a_watched_lag_is_a_line_of_json(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program reads line by line; one look alone stays readable."""
    monkeypatch.setattr("ehkafka.cli.lag._pause", lambda _s: broker.produce("t", [(b"k", b"v")], partition=0))
    code, text, _ = ehkafka(broker, "lag", "t", "--watch", "--json", "--fail-over", "21")
    assert code == 6
    assert [orjson.loads(line)["total_lag"] for line in text.splitlines()] == [20, 21, 22]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_watched_lag_without_a_reader_ends(
    broker: EmbeddedBroker,
    ehkafka_command: Callable[..., CompletedProcess[str]],
    form: tuple[str, ...],
) -> None:
    """`ehkafka lag --watch | head` would go on for ever, without a reader."""
    where = ("--group", "g", "--endpoint", broker.bootstrap)
    ended = ehkafka_command("lag", "t", "--watch", "--every", "0.2", *form, *where, is_read=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_owners_of_a_list_with_absurd_times(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A time beyond the calendar is no owner's, and no traceback."""
    name = Layout(HOST, "g").name("t", 0, "ehkafka/owner")
    rows: list[Any] = []
    for at_ms in (2**49, int(time.time() * 1000)):
        metadata = {"owner": "app-1", "epoch": "1", "at_ms": str(at_ms)}
        (tmp_path / "list.json").write_bytes(orjson.dumps([{"name": name, "metadata": metadata}]))
        where = ["--mirror", f"{tmp_path}/list.json", "--namespace", HOST]
        code, text, error = ehkafka(broker, "owners", "t", *where, "--json")
        assert code == 0, error
        rows.append(orjson.loads(text)["partitions"][0])
    assert [row["owner"] for row in rows] == [None, "app-1"]
