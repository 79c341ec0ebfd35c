"""The home-security pipeline on Spark: its numbers equal the simulator's ledger, and the other engine's."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from home_pipeline import layout, rules
from home_pipeline.readings import SPOILT, Reading, Town, encode
from home_pipeline.stage import HERE

from tests.kit.home_town import run_killed, unlike

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.kit.azurite import Azurite

IS_LONG = os.environ.get("EHKAFKA_LONG") == "1"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN_US = 1_790_000_000_000_000
GOOD = Reading("home-000007", "door_front", "", BEGIN_US, 1.0, alarm=False)

RUN_S = 600.0  # half a minute on a machine that has time


@pytest.mark.timeout(700)
def test_one_command_runs_it_all_on_spark(spark_environment: dict[str, str], azurite: Azurite) -> None:
    """As its README says: at the end the page's numbers equal the ledger's, the new sensor's among them."""
    command = [sys.executable, str(HERE / "run.py"), "--seconds", "5", "--homes", "300", "--rate", "300"]
    command += ["--port", "0", "--window-s", "2", "--new-sensor-after", "3"]
    # Its session chooses a collector, which a second choice would contradict.
    quick = os.environ | {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=quick)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "✓ the page's numbers equal the ledger's" in ended.stdout
    assert "alarms has its alert in the topic" in ended.stdout
    steps = ("engine: Spark starts its JVM.", "is up, local[2]", "the first batch is written")
    assert [step for step in steps if step not in ended.stdout] == []


def test_sql_counts_what_python_counts(spark: SparkSession) -> None:
    """A town's readings and hostile records make the same rows on both engines, spoilt ones among them."""
    from home_pipeline import spark_engine  # noqa: PLC0415 - loads PySpark, which may not be installed

    records = [
        *(
            (one.key.encode(), one.value, one.timestamp_ms)
            for one in islice(Town(200, 100, BEGIN_US).sent(), 3_000)
        ),
        *hostile_records(),
    ]
    columns = [(key, value, EPOCH + timedelta(milliseconds=at_ms)) for key, value, at_ms in records]
    frame = spark.createDataFrame(columns, "key binary, value binary, timestamp timestamp")
    found = spark_engine.counted(frame, rules.Windows()).collect()
    by_sql = sorted(layout.Row(**row.asDict()) for row in found)
    readings = [rules.counted(*record) for record in records]
    assert by_sql == sorted(layout.rows_of([one for one in readings if one is not None], rules.Windows()))
    assert sum(row.readings for row in by_sql if row.kind == SPOILT) > 10
    assert any(row.alarm_at_us for row in by_sql)


@pytest.mark.parametrize(
    ("stored", "offsets", "commits", "state"),
    [
        (range(4), range(5), range(4), range(1, 5)),
        (range(6), range(7), range(6), range(1, 7)),
        (range(7), range(7), range(6), range(1, 7)),
        ((), range(7), range(6), range(1, 7)),
    ],
    ids=["two batches are forgotten", "none is", "none is, the last is not noted", "more than is known"],
)
def test_the_query_goes_back_behind_the_last_batch_that_the_store_has(
    tmp_path: Path,
    stored: Iterable[int],
    offsets: Iterable[int],
    commits: Iterable[int],
    state: Iterable[int],
) -> None:
    """The batch after it is begun, not done; what came after that one is gone, and the state of it, too."""
    from home_pipeline import spark_engine  # noqa: PLC0415 - see above

    def written() -> list[str]:
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())

    def files(offsets: Iterable[int], commits: Iterable[int], state: Iterable[int]) -> list[str]:
        numbered = [*(f"offsets/{n}" for n in offsets), *(f"commits/{n}" for n in commits)]
        return sorted(["metadata", *numbered, *(f"state/0/1/{n}.delta" for n in state)])

    for name in files(range(2 if not stored else 0, 7), range(6), range(1, 7)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    blobs = [SimpleNamespace(name=f"spark/batch={number:012d}/_manifest.json") for number in stored]
    blobs += [SimpleNamespace(name="spark/_ehkafka.json")]
    container: Any = SimpleNamespace(list_blobs=lambda name_starts_with: blobs)
    spark_engine.go_back(container, tmp_path)
    assert written() == files(offsets if stored else range(2, 7), commits, state)


def hostile_records() -> list[tuple[bytes | None, bytes | None, int]]:
    """Return records of a home that must not be counted, some that must, and some of no home."""
    at_ms = BEGIN_US // 1000
    good = orjson.loads(encode(GOOD))
    changed: list[dict[str, Any]] = [
        {},
        {"alarm": True},
        {"alarm": None, "unit": None},
        {"value": 0, "at": BEGIN_US},
        {"value": "1"},
        {"value": None},
        {"value": 1e300},
        {"value": True},
        {"kind": SPOILT},
        {"kind": "Door"},
        {"kind": None},
        {"unit": "<b>"},
        {"home": "home-7"},
        {"home": "../home-000007"},
        {"home": None},
        {"at": None},
        {"at": float(BEGIN_US) + 0.5},
        {"at": BEGIN_US - rules.CLOCK_TOLERANCE_US - 1},
        {"at": -1},
    ]
    bodies = [orjson.dumps(good | change) for change in changed]
    bodies += [b"", b"null", b"[]", b"7", b'{"home":', b"\xff\xfe", orjson.dumps({"kind": "smoke"})]
    records: list[tuple[bytes | None, bytes | None, int]] = [(b"home-000007", body, at_ms) for body in bodies]
    records.append((b"home-000007", None, at_ms))
    of_no_home = [None, b"", b"home-7", b"home-000007\n", b"\xff", "home-\u0660".encode()]
    return [*records, *((key, b"spoilt", at_ms) for key in of_no_home), (b"home-000008", bodies[0], at_ms)]


@pytest.mark.skipif(not IS_LONG, reason="a longer mode: EHKAFKA_LONG=1")
@pytest.mark.timeout(1_200)
def test_a_hundred_homes_are_as_the_topic_says_although_spark_was_killed(
    spark_environment: dict[str, str], azurite: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is killed three times in the middle of a window: the numbers of the topic all the same."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    shown = run_killed("spark", azurite, tmp_path, monkeypatch, kills=3, closing_s=60, within_s=300.0)
    found = unlike(shown)
    assert found == [], f"FACT: {found[:5]}"
    assert shown.spoilt > 0
