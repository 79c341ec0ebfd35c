"""`ehkafka offsets`, `lag` and `owners` as a user sees them, with the embedded broker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from ehkafka.checkpoints.checkpoint import Checkpoint, Ownership
from ehkafka.checkpoints.formats.folder import FolderStore
from ehkafka.checkpoints.layout import Layout
from ehkafka.checkpoints.mirror.body import checkpoint_body, checkpoint_metadata, ownership_metadata
from ehkafka.checkpoints.stores.file import FileStore
from ehkafka.cli.commands import cli
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.embedded.topics import commits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "home.servicebus.windows.net"
MEMBER = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "enable.auto.commit": False}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with ten records in each of three partitions."""
    with EmbeddedBroker({"t": 3}) as broker:
        for partition in range(3):
            broker.produce("t", [(b"k", b"v")] * 10, partition=partition)
        yield broker


def ehkafka(broker: EmbeddedBroker, *arguments: str) -> tuple[int, str, str]:
    """Run a command for group g; return its exit code, stdout and stderr."""
    ended = CliRunner().invoke(
        cli, [*arguments, "--group", "g", "--endpoint", broker.bootstrap, "--timeout", "5"]
    )
    return ended.exit_code, ended.stdout, ended.stderr


def reset(broker: EmbeddedBroker, *arguments: str) -> tuple[int, str, str]:
    """Reset without a watch."""
    return ehkafka(broker, "offsets", "reset", "t", "--watch-for", "0", *arguments)


def committed(broker: EmbeddedBroker) -> dict[int, int]:
    """Return the group's commits."""
    found = commits(broker.bootstrap, "g", "t")
    return {one.partition: one.offset for one in found if one.offset >= 0}


def commit_from_outside(broker: EmbeddedBroker, partition: int, offset: int, metadata: str = "") -> None:
    """Commit as another client would."""
    other = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    other.commit(offsets=[TopicPartition("t", partition, offset, metadata)], asynchronous=False)
    other.close()


def sdk_folder(folder: Path, positions: dict[int, str], host: str = HOST) -> str:
    """Write checkpoints of a current SDK as files."""
    there = FolderStore(folder)
    for partition, number in positions.items():
        metadata = {"sequencenumber": number, "offset": "1"}
        name = f"{host}/t/$default/checkpoint/{partition}"
        there.write(name, metadata=metadata, body=b"", expected=None)
    return str(folder)


def test_nothing_moves_without_yes(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Reset and import preview, lag looks: no join, no commit."""
    broker.track_requests()
    code, text, _ = reset(broker, "--to", "latest")
    assert code == 0
    assert "Nothing was moved. Add --yes to do it." in text
    code, text, _ = ehkafka(broker, "offsets", "import", "t", "--from", sdk_folder(tmp_path, {0: "4"}))
    assert code == 0
    assert "Add --yes" in text
    assert ehkafka(broker, "lag", "t")[0] == 0
    for api in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.PRODUCE):
        assert broker.requests(api) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to", "earliest"], {0: 0, 1: 0, 2: 0}),
        (["--to", "latest"], {0: 10, 1: 10, 2: 10}),
        (["--to", "4"], {0: 4, 1: 4, 2: 4}),
        (["--to", "-3"], {0: 7, 1: 7, 2: 7}),
        (["--to", "4", "--partition", "1"], {1: 4}),
        (["--to", "0=4", "--to", "2=latest"], {0: 4, 2: 10}),
        (["--to", "0=4", "--to", "earliest"], {0: 4, 1: 0, 2: 0}),
        (["--to", "11", "--clamp"], {0: 10, 1: 10, 2: 10}),
    ],
)
def test_a_reset_moves_to_a_time_an_offset_or_an_end(
    broker: EmbeddedBroker, options: list[str], expected: dict[int, int]
) -> None:
    """For all partitions or some; what is there afterwards is read back and shown."""
    code, text, error = reset(broker, *options, "--yes", "--json")
    assert code == 0, error
    assert committed(broker) == expected
    after = {one["partition"]: one["committed"] for one in orjson.loads(text)["after"]["partitions"]}
    assert {number: offset for number, offset in after.items() if offset is not None} == expected


def test_a_position_outside_of_the_log_is_named_and_nothing_moves(broker: EmbeddedBroker) -> None:
    """Neither that partition nor the others; the exit code tells in a preview, too."""
    reset(broker, "--to", "2", "--yes")
    for yes in ([], ["--yes"]):
        code, text, error = reset(broker, "--to", "0=5", "--to", "1=25", *yes)
        assert code == 3
        assert "partition 1: 25 is 15 ahead of the log's end (0–10)" in error
        assert "topic t, group g" in error
        assert "Nothing was moved" in error
        assert "--clamp" in error
        assert "refused" in text
    assert committed(broker) == {0: 2, 1: 2, 2: 2}


def test_an_import_moves_to_the_next_sequence_number(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """A partition without a checkpoint is kept and said to be."""
    folder = sdk_folder(tmp_path, {0: "4", 2: "0"})
    code, text, error = ehkafka(
        broker, "offsets", "import", "t", "--from", folder, "--yes", "--watch-for", "0"
    )
    assert code == 0, error
    assert f"from {HOST}/t/$default (sdk) in {folder}" in text
    assert "kept: no checkpoint" in text
    assert "Committed 2 of 3 partitions" in text
    assert committed(broker) == {0: 5, 2: 1}


@pytest.mark.parametrize(
    ("positions", "options", "code", "shown"),
    [
        ({0: "4", 1: "10"}, [], 3, "partition 1: 11 is 1 ahead of the log's end (0–10)"),
        ({0: "4", 7: "3"}, [], 3, "partition 7: has checkpoint"),
        ({0: "4", 1: "x"}, [], 3, "partition 1: checkpoint"),
        ({0: "4"}, ["--from-hub", "other"], 2, "holds no checkpoint of any namespace/other/any group"),
        ({0: "4"}, ["--format", "none"], 2, "--format 'none' is unknown: use one of sdk, ehkafka, eph"),
        ({0: "4"}, ["--from", "/nowhere"], 2, "There is nothing at '/nowhere'"),
        ({0: "4"}, ["--from", "https://x.blob.core.windows.net/c?sig=hush"], 2, "A SAS is a secret"),
    ],
)
def test_what_cannot_be_imported_is_one_message_and_nothing_moves(
    broker: EmbeddedBroker,
    tmp_path: Path,
    positions: dict[int, str],
    options: list[str],
    code: int,
    shown: str,
) -> None:
    """Which partition, why, that nothing was moved, and no traceback or secret."""
    folder = sdk_folder(tmp_path, positions)
    found, _text, error = ehkafka(broker, "offsets", "import", "t", "--yes", "--from", folder, *options)
    assert found == code
    assert shown in error
    assert "hush" not in error
    assert "Traceback" not in error
    assert "Nothing was moved" in error or code == 2
    assert committed(broker) == {}


def test_some_partitions_can_be_imported_beside_broken_ones(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """--partition leaves the others out, and --clamp takes the nearest end."""
    folder = sdk_folder(tmp_path, {0: "4", 1: "x", 2: "99"})
    arguments = ["offsets", "import", "t", "--from", folder, "--yes", "--watch-for", "0"]
    assert ehkafka(broker, *arguments, "--partition", "0")[0] == 0
    assert committed(broker) == {0: 5}
    code, text, _ = ehkafka(broker, *arguments, "--partition", "2", "--clamp")
    assert code == 0
    assert "clamped: 100 is 90 ahead" in text
    assert committed(broker) == {0: 5, 2: 10}


@pytest.mark.parametrize("form", ["sdk", "eph", "functions"])
def test_what_is_exported_is_imported_again(broker: EmbeddedBroker, tmp_path: Path, form: str) -> None:
    """A preview first; a partition without a commit is named; the way back leads to the same offsets."""
    reset(broker, "--to", "0=4", "--to", "1=9", "--yes")
    export = ["offsets", "export", "t", "--to", f"{tmp_path}/c", "--format", form, "--to-namespace", HOST]
    code, text, error = ehkafka(broker, *export)
    assert code == 0, error
    assert "othing was written" in text
    assert not (tmp_path / "c").exists()
    code, text, error = ehkafka(broker, *export, "--yes")
    assert (code, "Written and read back" in text) == (0, True)
    assert "not written: the group has no commit" in text
    assert "without the SDK's own offset" in error
    reset(broker, "--to", "earliest", "--yes")
    code, text, error = ehkafka(
        broker, "offsets", "import", "t", "--from", f"{tmp_path}/c", "--yes", "--watch-for", "0"
    )
    assert code == 0, error
    assert committed(broker) == {0: 4, 1: 9, 2: 0}


def test_an_export_stands_under_the_mirrors_namespace(
    broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else KEDA, which looks where the mirror writes, would not find it."""
    reset(broker, "--to", "0=4", "--to", "1=9", "--yes")
    monkeypatch.setenv("EHKAFKA_MIRROR_NAMESPACE", "home")
    code, text, error = ehkafka(broker, "offsets", "export", "t", "--to", f"{tmp_path}/c", "--yes", "--json")
    assert code == 0, error
    assert orjson.loads(text)["checkpoints"][0]["blob"] == "home/t/$default/checkpoint/0"


def test_an_export_says_that_it_goes_back(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Over an SDK's checkpoint that is further on; the one that is there is shown."""
    folder = sdk_folder(tmp_path, {0: "8", 1: "2"})
    reset(broker, "--to", "0=4", "--to", "1=3", "--yes")
    code, text, _ = ehkafka(
        broker, "offsets", "export", "t", "--to", folder, "--to-namespace", HOST, "--json"
    )
    assert code == 0
    found = orjson.loads(text)["checkpoints"]
    assert found[1] == {
        "partition": 1,
        "before": 3,
        "after": None,
        "read_back": None,
        "blob": None,
        "note": "up to date",
    }
    first = found[0]
    assert (first["before"], first["after"]) == (9, 4)
    assert "goes back by 5" in first["note"]
    assert "offset in it is lost" in first["note"]


def test_diff_shows_group_mirror_and_sdk(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Side by side; those that do not agree are counted."""
    reset(broker, "--to", "4", "--yes")
    folder = sdk_folder(tmp_path, {0: "3", 1: "6"})
    for partition, offset in ((0, 4), (2, 7)):
        checkpoint = Checkpoint(next_offset=offset, owner="app-1")
        FileStore(tmp_path).write(
            Layout(HOST, "g").name("t", partition),
            metadata=checkpoint_metadata(checkpoint),
            body=checkpoint_body(checkpoint),
            expected=None,
        )
    code, text, error = ehkafka(broker, "offsets", "diff", "t", "--from", folder, "--json")
    assert code == 0, error
    rows = [(one["committed"], one["mirror"], one["sdk"]) for one in orjson.loads(text)["partitions"]]
    assert rows == [(4, 4, 4), (4, None, 7), (4, 7, None)]
    code, text, _ = ehkafka(broker, "offsets", "diff", "t", "--from", folder)
    assert "2 of 3 partitions differ" in text
    assert "the SDK is 3 ahead of the group" in text
    assert "the mirror is ahead of the group" in text


def test_lag_of_a_group_that_no_broker_lists(broker: EmbeddedBroker) -> None:
    """A group with commits and without members, and one that does not exist; --fail-over decides the code."""
    code, text, _ = ehkafka(broker, "lag", "t", "--json")
    assert code == 0
    found = orjson.loads(text)
    assert found["total_lag"] == 30
    assert {one["problem"] for one in found["partitions"]} == {"no commit"}
    reset(broker, "--to", "0=10", "--to", "1=7", "--to", "2=10", "--yes")
    code, text, _ = ehkafka(broker, "lag", "t", "--fail-over", "3")
    assert code == 0
    assert text.splitlines()[-1] == "total lag 3"
    assert ehkafka(broker, "lag", "t", "--fail-over", "2")[0] == 6


def test_a_commit_outside_of_its_log_is_no_lag_of_nothing(broker: EmbeddedBroker) -> None:
    """Ahead of the end nothing is left to read, and yet --fail-over fails: it is another log."""
    commit_from_outside(broker, 1, 25)
    reset(broker, "--to", "0=latest", "--to", "2=latest", "--yes")
    code, text, _ = ehkafka(broker, "lag", "t", "--fail-over", "1000")
    assert code == 6
    assert "15 ahead of the log's end" in text
    assert text.splitlines()[-1] == "total lag 0"


def test_owners_shows_idle_and_silent_ones(broker: EmbeddedBroker, tmp_path: Path) -> None:
    """Who has which partition and when he said so, with the lag; idle partitions included."""
    reset(broker, "--to", "0=10", "--to", "1=7", "--yes")
    now_ms = int(time.time() * 1000)
    shown = {
        0: Ownership(owner="app-1", epoch=1, at_ms=now_ms),
        1: Ownership(owner="app-2", epoch=1, at_ms=now_ms, is_released=True),
    }
    there = FileStore(tmp_path)
    for partition, ownership in shown.items():
        name = Layout(HOST, "g").name("t", partition, "ehkafka/owner")
        there.write(name, metadata=ownership_metadata(ownership), body=b"", expected=None)
    code, text, error = ehkafka(
        broker, "owners", "t", "--mirror", str(tmp_path), "--namespace", HOST, "--json"
    )
    assert code == 0, error
    rows: list[Any] = orjson.loads(text)["partitions"]
    assert [(row["owner"], row["state"], row["lag"]) for row in rows] == [
        ("app-1", "owned", 0),
        (None, "released", 3),
        (None, "unowned", 10),
    ]
    code, text, _ = ehkafka(broker, "owners", "t", "--mirror", str(tmp_path), "--namespace", HOST)
    assert "idle" in text
    assert "1 owner, 3 partitions, total lag 13" in text


def test_a_group_has_to_be_named(broker: EmbeddedBroker) -> None:
    """One line, exit code 2."""
    ended = CliRunner().invoke(cli, ["lag", "t", "--endpoint", broker.bootstrap])
    assert ended.exit_code == 2
    assert "--group" in ended.stderr


def test_who_only_looks_or_commits_asks_for_no_producer_id(broker: EmbeddedBroker) -> None:
    """Admin clients are producers to librdkafka, and a service that forgets ids has each of them to keep."""
    broker.track_requests()
    for command in (
        ["offsets", "reset", "t", "--to", "earliest", "--yes", "--watch-for", "0"],
        ["lag", "t"],
        ["owners", "t"],
    ):
        ehkafka(broker, *command)
    for command in (["dlq", "list", "t"], ["dlq", "redrive", "t"], ["tail", "t", "--limit", "1"], ["check"]):
        CliRunner().invoke(cli, [*command, "--endpoint", broker.bootstrap, "--timeout", "5"])
    assert len(broker.requests(ApiKey.METADATA)) > 8
    assert broker.requests(ApiKey.INIT_PRODUCER_ID) == []
