"""`ehkafka export` as a user sees it: which records are in the files, and when there is no file."""

from __future__ import annotations

import base64
import os
import re
import resource
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from rich.progress import Progress
from typer.testing import CliRunner

import ehkafka.arrow
from ehkafka import Endpoint
from ehkafka.cli.commands import cli
from ehkafka.cli.progress import RateColumn, rate_of
from ehkafka.embedded.broker import EmbeddedBroker
from ehkafka.embedded.requests import ApiKey
from ehkafka.embedded.topics import produce
from ehkafka.errors import EndpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL = "key,value,topic,partition,offset,timestamp,timestampType,headers"
NOON_MS = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 86_400_000


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    """Run a broker with 50 orders in each of two partitions, and a topic of awkward records."""
    with EmbeddedBroker({"orders": 2, "odd": 1, "empty": 1}) as broker:
        for partition in range(2):
            records = [(f"k{number}", b'{"n":%d}' % number) for number in range(50)]
            broker.produce("orders", records, partition=partition)
        odd = [(None, None), (b"", b""), (b"\xff", b"\x00\xfe"), ("ä", "\u2028\x7f".encode())]
        broker.produce("odd", odd, partition=0, headers=[("unit", b"C"), ("unit", None), ("b", b"\xff")])
        yield broker


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of our own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def export(broker: EmbeddedBroker, *arguments: str, topic: str = "orders") -> tuple[int, str, str]:
    """Run the command; return its exit code, stdout and stderr."""
    asked = ["export", topic, "--endpoint", broker.bootstrap, "--timeout", "5"]
    ended = CliRunner().invoke(cli, [*asked, *arguments])
    return ended.exit_code, ended.stdout, ended.stderr


def read(broker: EmbeddedBroker, topic: str, columns: str = ALL) -> pa.Table:
    """Return all of a topic, in order."""
    endpoint = Endpoint.kafka(broker.bootstrap)
    with ehkafka.arrow.read(endpoint, topic, start="earliest", columns=columns.split(",")) as reader:
        return in_order(reader.table())


def in_order(table: pa.Table) -> pa.Table:
    """Return the rows by partition and offset."""
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def places(path: Path) -> list[tuple[int, int]]:
    """Return partition and offset of each record, in order."""
    table = ds.dataset(path, partitioning="hive").to_table(["partition", "offset"])
    return sorted(zip(*table.to_pydict().values(), strict=True))


def of_json(path: Path, schema: pa.Schema) -> pa.Table:
    """Return what NDJSON means, in the types of the schema."""

    def back(value: Any, kind: pa.DataType) -> Any:
        if pa.types.is_list(kind):
            return value and [{"key": one["key"], "value": back(one["value"], pa.binary())} for one in value]
        if pa.types.is_timestamp(kind):
            return value and datetime.fromisoformat(value)
        if pa.types.is_binary(kind) and value is not None:
            return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()
        return value

    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    return pa.Table.from_pylist(
        [{field.name: back(row[field.name], field.type) for field in schema} for row in rows], schema=schema
    )


@pytest.mark.parametrize("name", ["out.parquet", "out.ndjson", "out.arrow", "OUT.PARQUET"])
@pytest.mark.parametrize("topic", ["orders", "odd", "empty"])
def test_each_format_holds_the_records_as_they_are(
    broker: EmbeddedBroker, folder: Path, name: str, topic: str
) -> None:
    """Nulls, empty values, bytes that are no text, a header that is there twice; no record at all."""
    code, text, error = export(broker, "--from", "earliest", "--columns", ALL, "--to", name, topic=topic)
    assert (code, error) == (0, "")
    expected, path = read(broker, topic), folder / name
    written = {
        "ndjson": lambda: of_json(path, expected.schema),
        "arrow": lambda: pa.ipc.open_file(path).read_all(),
        "parquet": lambda: pq.read_table(path),
    }[name.rpartition(".")[2].lower()]()
    assert in_order(written).equals(expected)
    assert re.match(rf"{name} has {len(expected)} records?, [\d.,]+ \w+\.\n", text)
    assert [one.name for one in folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--from", "48"], [(p, n) for p in range(2) for n in (48, 49)]),
        (["--from", "earliest", "--until", "2", "--partition", "1"], [(1, 0), (1, 1)]),
        (["--from", "0=48", "--from", "1=0", "--until", "0=49", "--until", "1=1"], [(0, 48), (1, 0)]),
        (["--from", "1=48"], [(1, 48), (1, 49)]),
        (["--since", "1 hour ago"], [(p, n) for p in range(2) for n in range(50)]),
        (["--from", "earliest", "--until", "-1d"], []),
        (["--from", "latest"], []),
    ],
)
def test_offsets_and_times_choose_the_records(
    broker: EmbeddedBroker, folder: Path, arguments: list[str], expected: list[tuple[int, int]]
) -> None:
    """The end is exclusive; offsets by partition read these partitions only."""
    code, _, error = export(broker, *arguments, "--to", "out.parquet")
    assert (code, error) == (0, "")
    assert places(folder / "out.parquet") == expected


def test_a_time_on_an_embedded_broker_of_another_process_chooses_the_records(
    broker: EmbeddedBroker, folder: Path, ehkafka_command: Callable[..., Any]
) -> None:
    """That broker knows no record's time: without reading its logs nothing would be as late."""
    asked = (
        "export",
        "orders",
        "--endpoint",
        broker.bootstrap,
        "--since",
        "1 hour ago",
        "--to",
        "out.parquet",
    )
    ended = ehkafka_command(*asked)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("out.parquet has 100 records, ")


def test_a_timestamp_that_no_calendar_has_is_null_as_json(broker: EmbeddedBroker, folder: Path) -> None:
    """A producer may write any number."""
    for at_ms in (2**53, NOON_MS, -1):
        produce(broker.bootstrap, "empty", [("k", b"v")], timestamp_ms=at_ms)
    columns = ("--columns", "timestamp")
    assert export(broker, "--from", "earliest", *columns, "--to", "out.ndjson", topic="empty")[0] == 0
    rows = [orjson.loads(line)["timestamp"] for line in (folder / "out.ndjson").read_bytes().splitlines()]
    assert rows == [None, "2026-01-31T12:00:00Z", "1969-12-31T23:59:59.999000Z"]


@pytest.mark.parametrize("by", ["day", "partition"])
@pytest.mark.parametrize(("form", "reads"), [("parquet", "parquet"), ("arrow", "ipc")])
def test_a_folder_for_each_day_or_partition_is_read_as_one(
    broker: EmbeddedBroker, folder: Path, by: str, form: str, reads: str
) -> None:
    """Days before 1970 have folders of their own, those that no calendar has a common one."""
    for at_ms in (NOON_MS, NOON_MS + DAY_MS, -1, 2**53, 2**62, NOON_MS, -1):
        for partition in range(2):
            produce(broker.bootstrap, "orders", [("k", b"v")], partition=partition, timestamp_ms=at_ms)
    code, _, error = export(broker, "--from", "earliest", "--by", by, "--format", form, "--to", "out")
    assert (code, error) == (0, "")
    found = ds.dataset(folder / "out", format=reads, partitioning="hive").to_table()
    expected = read(broker, "orders", ALL.removesuffix(",headers"))
    assert in_order(found.select(expected.column_names)).equals(expected)
    in_files = ds.dataset(folder / "out", format=reads).schema.names
    assert ("partition" in in_files) == (by == "day")
    there = {one.name.removeprefix(f"{by}=") for one in (folder / "out").iterdir()}
    today = datetime.now(UTC).date().isoformat()
    days = {"2026-01-31", "2026-02-01", "1969-12-31", "__HIVE_DEFAULT_PARTITION__", today}
    assert there == ({"0", "1"} if by == "partition" else days)


def test_columns_are_those_that_were_asked_for(broker: EmbeddedBroker, folder: Path) -> None:
    """In that order; the column that chooses the folder is read, and not written."""
    ways = {"out.parquet": [], "by-day": ["--by", "day"], "by-partition": ["--by", "partition"]}
    for name, by in ways.items():
        names = "Offset, value,VALUE"
        code, _, error = export(broker, "--from", "earliest", "--columns", names, *by, "--to", name)
        assert (code, error) == (0, "")
    files = [folder / "out.parquet", *folder.rglob("part-*.parquet")]
    assert [pq.read_schema(file).names for file in files] == [["offset", "value"]] * 4


def test_a_row_group_has_the_rows_of_many_batches(
    broker: EmbeddedBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to so many bytes; then another one begins."""
    broker.produce("orders", [("k", b"v" * 100)] * 25_000, partition=0)
    code, _, error = export(broker, "--from", "earliest", "--to", "one.parquet")
    assert (code, error) == (0, "")
    monkeypatch.setattr("ehkafka.cli.export.files.WAITING_BYTES_MAX", 1_000_000)
    assert export(broker, "--from", "earliest", "--to", "more.parquet")[0] == 0
    groups = [pq.ParquetFile(folder / f"{name}.parquet").num_row_groups for name in ("one", "more")]
    assert groups[0] == 1
    assert groups[1] > 1
    assert places(folder / "one.parquet") == places(folder / "more.parquet")


def test_a_dry_run_counts_and_writes_nothing(broker: EmbeddedBroker, folder: Path) -> None:
    """Offsets between the two ends, and their bytes by a sample; nothing is joined or committed."""
    broker.track_requests()
    code, text, error = export(broker, "--from", "10", "--to", "out.parquet", "--dry-run")
    assert (code, error) == (0, "")
    assert re.match(r"out.parquet would have up to 80 records and about [\d.]+ kB before compression", text)
    code, text, _ = export(broker, "--from", "10", "--to", "out.parquet", "--dry-run", "--json")
    found = orjson.loads(text)
    size = read(broker, "orders", "key,value,topic,partition,offset,timestamp,timestampType").nbytes
    assert found["bytes"] == pytest.approx(0.8 * size, rel=0.1)
    assert (found["records"], found["ends"], found["dry_run"]) == (80, {"0": 50, "1": 50}, True)
    assert list(folder.iterdir()) == []
    for api in (ApiKey.JOIN_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH):
        assert broker.requests(api) == []


def test_the_result_is_one_line_of_json(broker: EmbeddedBroker, folder: Path) -> None:
    """With the ends, from which the next export goes on."""
    code, text, _ = export(broker, "--from", "earliest", "--to", "out.ndjson", "--json")
    assert code == 0
    assert orjson.loads(text) == {
        "topic": "orders",
        "to": "out.ndjson",
        "dry_run": False,
        "records": 100,
        "bytes": (folder / "out.ndjson").stat().st_size,
        "ends": {"0": 50, "1": 50},
    }


def test_a_file_that_exists_is_kept_unless_it_is_to_be_replaced(broker: EmbeddedBroker, folder: Path) -> None:
    """By --overwrite, and then only a file: a link keeps its target, a folder is never removed."""
    before = folder / "real.parquet"
    before.write_text("precious")
    (folder / "link.parquet").symlink_to(before)
    (folder / "some").mkdir()
    for name, more, reason in [
        ("real.parquet", [], "exists"),
        ("some", ["--by", "day"], "exists"),
        ("some", ["--by", "day", "--overwrite"], "replaces only a file by a file"),
        ("some", ["--format", "arrow", "--overwrite"], "replaces only a file by a file"),
        ("real.parquet", ["--by", "day", "--overwrite"], "replaces only a file by a file"),
    ]:
        code, text, error = export(broker, "--from", "earliest", "--to", name, *more)
        assert (code, text) == (2, "")
        assert reason in error
    assert before.read_text() == "precious"
    assert export(broker, "--from", "49", "--to", "link.parquet", "--overwrite")[0] == 0
    assert (folder / "link.parquet").is_symlink()
    assert places(before) == [(0, 49), (1, 49)]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--to", "out.csv"], "must end with one of .parquet, .ndjson, .arrow"),
        (["--to", "no/such/out.parquet"], "create that folder"),
        (["--to", "https://me.blob.core.windows.net/c/out.parquet"], "docs/guides/tables.md"),
        (["--to", "out.parquet", "--columns", "key,no"], "no"),
        (["--to", "out", "--by", "partition", "--columns", "Partition"], "leaves no column to write"),
        (["--to", "out.parquet", "--partition", "7"], "7"),
        (["--to", "out.parquet", "--until", "3"], "which is lower"),
        (["--to", "out.parquet", "--from", "0=1"], "one place for all"),
        (["--to", "out.parquet", "--from", "-5"], "twice"),
        (["--to", "out.parquet", "--until", "0=-10m"], "--until takes one place for all"),
    ],
)
def test_a_mistake_leaves_no_file(
    broker: EmbeddedBroker, folder: Path, arguments: list[str], reason: str
) -> None:
    """One line that names it, and exit code 2."""
    code, text, error = export(broker, "--from", "9", *arguments)
    assert (code, text) == (2, ""), error
    assert reason in error
    assert error.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_a_file_that_another_program_writes_meanwhile_is_kept(
    broker: EmbeddedBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name was free when the export began."""
    write = "ehkafka.cli.export.files.ExportFiles.write"
    monkeypatch.setattr(write, lambda *_given: (folder / "out.parquet").write_text("precious"))
    code, _, error = export(broker, "--from", "earliest", "--to", "out.parquet")
    assert (code, "out.parquet exists" in error) == (2, True)
    assert [(one.name, one.read_text()) for one in folder.iterdir()] == [("out.parquet", "precious")]


def test_without_a_terminal_lines_show_how_far_it_is(
    broker: EmbeddedBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr, now and then."""
    monkeypatch.setattr("ehkafka.cli.progress.LINE_S", 0.0)
    code, text, error = export(broker, "--from", "earliest", "--to", "out.parquet")
    assert (code, text.count("\n")) == (0, 1)
    assert re.search(r"ehkafka: Exporting: 100 of 100, [\d,]+ offsets/s, 0:00:00 left$", error)


def test_the_time_left_grows_while_nothing_is_done() -> None:
    """The rate is the mean from the beginning on, and is lower with each second."""
    assert rate_of(0, 100, 5.0, "offsets") == "0 offsets/s, -:--:-- left"
    assert rate_of(40, 100, 2.0, "offsets") == "20 offsets/s, 0:00:03 left"
    clock = [0.0]
    bar = Progress(get_time=lambda: clock[0], disable=True)
    bar.add_task("", total=100, completed=40)
    clock[0] = 20.0
    assert RateColumn("offsets").render(bar.tasks[0]).plain == "2 offsets/s, 0:00:30 left"


def test_lost_records_end_it_or_are_a_warning(
    broker: EmbeddedBroker, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What retention removed is never left out silently."""
    broker.delete_records("orders", 0, 30)
    code, _, error = export(broker, "--from", "0", "--to", "out.parquet")
    assert (code, "offsets 0 to 29 are gone" in error, "add --on-loss warn" in error) == (3, True, True)
    assert list(folder.iterdir()) == []
    code, text, _ = export(broker, "--from", "0", "--to", "out.parquet", "--on-loss", "warn")
    assert (code, text.startswith("out.parquet has 70 records")) == (0, True)
    assert "offsets 0 to 29 are gone" in caplog.text


def test_an_error_in_the_middle_leaves_no_file(
    broker: EmbeddedBroker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the one that it would have been; the reader's own words follow."""

    def fail(_files: Any, _batch: Any) -> None:
        assert list(folder.glob("out.parquet.*.part/out.parquet"))
        raise EndpointError("The broker has gone.")

    monkeypatch.setattr("ehkafka.cli.export.files.ExportFiles.write", fail)
    code, text, error = export(broker, "--from", "earliest", "--to", "out.parquet")
    assert (code, text) == (3, "")
    assert "out.parquet was not written" in error
    assert error.splitlines()[-1] == "ehkafka: The broker has gone."
    assert list(folder.iterdir()) == []


@pytest.fixture(params=["File too large", "No space left on device"])
def full(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Work where a file of more than 64 KiB does not fit, by a limit or on a disk of that size."""
    if request.param == "File too large":
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
        yield request.param
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        return
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk of 64 KiB can be mounted here, which takes Linux and root: {error}")
    os.chdir(folder)  # no longer what was there before
    yield request.param
    os.chdir("/")
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("form", ["parquet", "ndjson", "arrow"])
@pytest.mark.parametrize("waiting_bytes", [0, 2**30])
def test_a_full_disk_is_one_error_and_leaves_no_file(
    broker: EmbeddedBroker,
    folder: Path,
    full: str,
    form: str,
    waiting_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the middle and at the end; the file that was there stays."""
    monkeypatch.setattr("ehkafka.cli.export.files.WAITING_BYTES_MAX", waiting_bytes)
    seed = 1
    values = []
    for _ in range(30_000):  # which no compression makes smaller
        seed = seed * 6_364_136_223_846_793_005 % 2**64
        values.append((None, b"%d" % seed))
    broker.produce("orders", values, partition=0)
    before = folder / f"out.{form}"
    before.write_text("precious")
    code, text, error = export(broker, "--from", "earliest", "--to", before.name, "--overwrite")
    assert (code, text) == (3, "")
    assert error == (
        f"ehkafka: {before.name} was not written: {full}. Free space there, or write to another folder.\n"
    )
    assert [(one.name, one.read_text()) for one in folder.iterdir()] == [(before.name, "precious")]
