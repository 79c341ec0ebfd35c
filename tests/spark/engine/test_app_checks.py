"""What an app cannot have on Spark is refused before anything is opened, with the reason and the fix."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.app_checks import check_app, check_session, check_source
from ehkafka.spark.source.options import options_from


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"on_failure": ehkafka.Hold()}, r"on_failure=Hold\(\).*would never end"),
        ({"on_failure": ehkafka.DeadLetter("d", after="hold_key")}, "hold_key.*divert_key"),
        ({"on_failure": ehkafka.DeadLetter("d", run_max=1, on_limit="hold")}, "on_limit='stop'"),
        ({"retry": ehkafka.Retry(attempts=None)}, "attempts=None.*number of attempts"),
        ({"scope": "handler"}, "scope='partition'"),
        ({"rate_limit": 5.0}, "max_records_per_batch"),
        # A task's own process runs the handler, so no deadline could end it alone.
        ({"workers": ehkafka.Processes(2), "deadline_s": 1.0}, "async def"),
    ],
)
def test_what_a_handler_cannot_have(lab: Any, options: dict[str, Any], text: str) -> None:
    """Each is refused by name: a batch must end, and its tasks know nothing of each other."""
    app = lab.make_app()
    app.handler("t", **options)(print)
    with pytest.raises(ConfigurationError, match=f"On Spark, handler.*{text}"):
        check_app(lab.parts_of(app))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"on_out_of_range": "latest"}, "on_out_of_range"),
        ({"on_parked_full": "stop"}, "on_parked_full='stop'"),
        ({"reset": True}, "ehkafka offsets reset"),
    ],
)
def test_what_settings_cannot_be(lab: Any, settings: dict[str, Any], text: str) -> None:
    """Settings that mean nothing inside a batch are refused instead of being left out silently."""
    app = lab.make_app(**settings)
    app.handler("t")(lambda record: None)
    with pytest.raises(ConfigurationError, match=text):
        check_app(lab.parts_of(app))


def test_on_idle_and_an_app_without_handlers_are_refused(lab: Any) -> None:
    """on_idle would never be called; without a handler there is nothing to run."""
    app = lab.make_app()
    with pytest.raises(ConfigurationError, match="no handler"):
        check_app(lab.parts_of(app))
    app.handler("t")(lambda record: None)
    check_app(lab.parts_of(app))
    app.on_idle(lambda partition: None)
    with pytest.raises(ConfigurationError, match="on_idle"):
        check_app(lab.parts_of(app))


def test_handlers_with_outputs_of_two_kinds_are_refused(lab: Any) -> None:
    """As in one process, before anything is opened."""
    app = lab.make_app()

    def as_json(record: ehkafka.Record) -> dict[str, int]:
        return {}

    def as_bytes(record: ehkafka.Record) -> bytes:
        return b""

    app.handler("t", to="out")(as_json)
    check_app(lab.parts_of(app))
    app.handler("u", to="out")(as_bytes)
    with pytest.raises(ConfigurationError, match=r"'as_json' and 'as_bytes' send .*bytes as bytes"):
        check_app(lab.parts_of(app))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"taskz": "3"}, r"no option 'taskz'; did you mean tasks\?"),
        ({"connectionStringEnv": "NOT_SET_ANYWHERE"}, "NOT_SET_ANYWHERE"),
        ({"maxOffsetsPerTrigger": "5"}, "maxOffsetsPerTrigger cannot be set"),
        ({"commitOffsets": "true"}, "commitOffsets cannot be set"),
    ],
)
def test_options_of_the_source_are_checked_before_spark_has_them(
    lab: Any, options: dict[str, str], text: str
) -> None:
    """Unknown and conflicting ones, and a way to the broker that leads nowhere, are reported by name."""
    app = lab.make_app()
    app.handler("t")(print)
    session = SimpleNamespace(_jsparkSession=None, conf={})
    with pytest.raises(ConfigurationError, match=text):
        app.run_on_spark(session, source_options=options)


def test_sessions_that_could_break_the_order_are_refused() -> None:
    """Speculation would run a partition's handlers twice at once; a Connect client is no driver."""
    with pytest.raises(ConfigurationError, match="Spark Connect"):
        check_session(SimpleNamespace())
    session = SimpleNamespace(_jsparkSession=None, conf={"spark.speculation": "true"})
    with pytest.raises(ConfigurationError, match="speculation"):
        check_session(session)
    session.conf = {"spark.sql.streaming.numRecentProgressUpdates": "1"}
    with pytest.raises(ConfigurationError, match=r"numRecentProgressUpdates=1.*50 or more"):
        check_session(session)
    session.conf = {}
    check_session(session)


def test_a_source_that_cuts_partitions_is_refused_at_the_start() -> None:
    """Not by the query, once it runs."""
    given = {"bootstrap": "localhost:1", "subscribe": "t", "tasks": "2", "splitPartitions": "true"}
    with pytest.raises(ConfigurationError, match="splitPartitions=true would lose the order"):
        check_source(options_from(given))


@pytest.mark.parametrize("prefix", ["spark.python.worker", "spark.sql.execution.pyspark.udf"])
def test_a_session_that_ends_quiet_workers_is_refused(prefix: str) -> None:
    """A task of the engine says nothing until it has ended: each long batch would be ended and repeated."""
    conf = {f"{prefix}.killOnIdleTimeout": "true", f"{prefix}.idleTimeoutSeconds": "30"}
    with pytest.raises(ConfigurationError, match=r"killOnIdleTimeout=true.*deadline_s"):
        check_session(SimpleNamespace(_jsparkSession=None, conf=conf))
    conf["spark.sql.execution.pyspark.udf.killOnIdleTimeout"] = "false"
    check_session(SimpleNamespace(_jsparkSession=None, conf=conf))
