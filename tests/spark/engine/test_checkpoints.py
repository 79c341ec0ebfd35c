"""Checkpoints on a Spark session: go on, compared with the group, made anew, their folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.embedded.topics import committed
from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.checkpoint_folder import CheckpointFolder, Identity

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from ehkafka.testing import EmbeddedBroker

pytest.importorskip("pyspark")

pytestmark = pytest.mark.timeout(900)


def test_a_checkpoint_goes_on_and_is_compared_with_the_group(
    spark: SparkSession,
    broker: EmbeddedBroker,
    produced: Any,
    app_at: Any,
    journal: Any,
    lab: Any,
    tmp_path: Path,
    group_commits: Any,
) -> None:
    """A second start goes on; a group that a consumer moved on is refused, --new-checkpoint follows it."""
    where = str(tmp_path / "checkpoint")

    def run(**choices: Any) -> None:
        app = app_at()
        lab.noting(app, journal.note)
        assert app.run_on_spark(spark, available_now=True, checkpoint=where, **choices).wait(400)

    total = produced(300)
    run()
    total += produced(100)
    run()
    lab.assert_once(journal, total)

    # The embedded broker keeps a group for its members for good, so a consumer's commits are made for it.
    total += produced(200)
    group_commits({number: (end, "") for number, end in lab.ends_of(broker).items()})
    with pytest.raises(ConfigurationError, match=r"checkpoint \d+, group \d+.*--new-checkpoint"):
        run()
    total += produced(50)
    run(new_checkpoint=True)
    run()
    lab.assert_once(journal, total - 200)
    assert sum(v or 0 for v in committed(broker.bootstrap, "g", "t").values()) == total


def test_a_stop_right_after_the_start_is_in_good_order(
    spark: SparkSession,
    broker: EmbeddedBroker,
    produced: Any,
    app_at: Any,
    journal: Any,
    tmp_path: Path,
    lab: Any,
) -> None:
    """A query that is stopped while Spark still sets it up ends without an error; the next one goes on."""
    total = produced(40)
    app = app_at()
    lab.noting(app, journal.note)
    for _ in range(2):
        run = app.run_on_spark(spark, checkpoint=str(tmp_path / "checkpoint"))
        run.stop()
        handled = {number: len(offsets) for number, offsets in journal.offsets().items()}
        assert broker.committed("g", "t") == {number: handled.get(number, 0) for number in range(4)}
    assert app.run_on_spark(spark, available_now=True, checkpoint=str(tmp_path / "checkpoint")).wait(400)
    lab.assert_once(journal, total)


def test_checkpoints_of_others_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A checkpoint of another group, topic or broker, or a folder of something else: one error says whose."""
    where, ours = str(tmp_path / "checkpoint"), Identity("g", ("t",), "broker")
    CheckpointFolder(spark, where, ours).describe(keeps_tags=True)
    for other, differs in (
        (Identity("h", ("t",), "broker"), "group 'g' instead of 'h'"),
        (Identity("g", ("u",), "broker"), r"topics \('t',\) instead of \('u',\)"),
        (Identity("g", ("t",), "moved"), "endpoint 'broker' instead of 'moved'"),
    ):
        with pytest.raises(ConfigurationError, match=differs):
            CheckpointFolder(spark, where, other)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thing").write_text("x")
    with pytest.raises(ConfigurationError, match="was not made by ehkafka"):
        CheckpointFolder(spark, str(tmp_path / "full"), ours)
    CheckpointFolder(spark, where, ours)


def test_a_folder_outlives_a_driver_that_was_killed_while_it_wrote_whose_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A description is written once: the newest that is whole counts, and half of one is none."""
    ours = Identity("g", ("t",), "broker")
    folder = tmp_path / "checkpoint"
    first = CheckpointFolder(spark, str(folder), ours)
    first.describe(keeps_tags=True)
    first.describe(keeps_tags=True)
    (folder / "run-0001").mkdir()
    (folder / "ehkafka-0002.json").write_text('{"version": 1, "ru')
    second = CheckpointFolder(spark, f"{folder}/", ours)
    assert (second.name, second.path) == (first.name, first.path)
    second.begin_anew()
    second.describe(keeps_tags=True)
    third = CheckpointFolder(spark, str(folder), ours)
    assert (third.name, third.path) == (second.name, f"{folder}/run-0002")
    assert json.loads((folder / "ehkafka-0003.json").read_text())["run"] == 2
    for number in (1, 3):
        (folder / f"ehkafka-000{number}.json").unlink()
    with pytest.raises(ConfigurationError, match="not made by ehkafka"):
        CheckpointFolder(spark, str(folder), ours)
    new = tmp_path / "new"
    new.mkdir()
    (new / "ehkafka-0001.json").write_text('{"version": 1, "ru')
    CheckpointFolder(spark, str(new), ours).describe(keeps_tags=True)
    assert json.loads((new / "ehkafka-0002.json").read_text())["group"] == "g"


def test_a_checkpoint_where_nothing_can_be_kept_is_one_error(spark: SparkSession, tmp_path: Path) -> None:
    """A file system that Spark does not know, or a file in the folder's place, is one sentence."""
    (tmp_path / "file").write_text("x")
    for where in ("nowhere://host/folder", str(tmp_path / "file" / "folder")):
        with pytest.raises(ConfigurationError, match=rf"checkpoint='{where}' cannot be used: "):
            CheckpointFolder(spark, where, Identity("g", ("t",), "broker")).describe(keeps_tags=True)
