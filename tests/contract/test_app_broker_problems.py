"""Brokers, topics and logs that go away: what the app hears, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.events import ConnectionProblem, PartitionLost


def ends_with(app: Any, kind: type[ehkafka.EhkafkaError], words: str | None = None) -> Any:
    """Wait for the app to end by itself; return the error that ended it."""
    assert app.wait(15.0)
    with pytest.raises(kind, match=words) as caught:
        app.stop()
    return caught.value


def test_connection_errors_reach_on_error_and_do_not_stop_the_app(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """A broker that is down is reported with kind `connection`; when it is back, records flow again."""
    asked: list[Any] = []
    app = lab.app(recorder)
    app.on_error(lambda *arguments: asked.append(arguments))
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    (kind, partition, record, error) = wait_for(lambda: asked)[0]
    assert (kind, partition, record) == ("connection", None, None)
    assert error.name() == "_ALL_BROKERS_DOWN"
    assert app.state == "running"
    lab.broker.bring_up()
    lab.produce("a")
    wait_for(lambda: recorder.count == 1)
    app.stop()


def test_on_error_may_stop_the_app_for_a_connection_error(lab: Any, recorder: Any, wait_for: Any) -> None:
    """Answering `stop` ends it with an EndpointError, exit code 3, although the broker stays away."""
    app = lab.app(recorder, stop_s=1.0)
    app.on_error(lambda *_arguments: "stop")
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    error = ends_with(app, ehkafka.errors.EndpointError, "on_error stopped the app")
    assert error.exit_code == 3


def test_a_topic_that_is_deleted_while_the_app_runs_ends_it(lab: Any, recorder: Any, wait_for: Any) -> None:
    """TopicNotFoundError names the topic and those that are there."""
    lab.produce("a", topic="u")
    app = lab.app(recorder, "u", consumer={"topic.metadata.refresh.interval.ms": 200})
    app.start()
    wait_for(lambda: recorder.count == 1)
    lab.broker.delete_topic("u")
    error = ends_with(app, ehkafka.errors.TopicNotFoundError, "'u'")
    assert error.exit_code == 3


def test_a_commit_below_the_log_stops_the_app_and_names_the_gap(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """Retention passed the committed offset while nobody ran: 7 records are gone, none is skipped."""
    lab.produce("a b c")
    app = lab.app(recorder)
    app.start()
    wait_for(lambda: lab.committed() == 3)
    app.stop()
    lab.produce("d e f g h i j k l")
    lab.broker.delete_records("t", 0, 10)
    app = lab.app(recorder)
    app.start()
    error = ends_with(
        app, ehkafka.errors.OffsetGapError, r"t\[0\].*offset 3.*now holds 10 to 12.*7 records are gone"
    )
    assert error.exit_code == 3
    assert recorder.count == 3
    assert lab.committed() == 3


def test_retention_that_overtakes_a_paused_partition_stops_the_app_and_names_the_gap(
    lab: Any, recorder: Any, wait_for: Any
) -> None:
    """The same while the app runs: what was received is handled, the gap is not skipped over."""
    recorder.block()
    lab.produce("a " * 300)
    app = lab.app(recorder, workers=2, backlog_records_max=40, consume_records_max=20)
    app.start()
    wait_for(lambda: app.snapshot().partitions and app.snapshot().partitions[0].paused)
    lab.broker.delete_records("t", 0, 200)
    recorder.open_all()
    ends_with(app, ehkafka.errors.OffsetGapError, "now holds 200 to 300")
    assert max(recorder.offsets()) < 200
    assert lab.committed() <= max(recorder.offsets()) + 1


def test_partitions_that_are_lost_while_no_broker_answers(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """No group has gone on without this member: the line says that no broker has answered, and since when."""
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    (lost,) = wait_for(lambda: events.of(PartitionLost))
    assert "no broker has answered for" in lost.sentence()
    lab.broker.bring_up()
    app.stop()


def test_problem_with_the_connection_is_an_event_with_its_usual_cause(
    lab: Any, recorder: Any, events: Any, wait_for: Any
) -> None:
    """The event carries librdkafka's code, its words and what usually causes it."""
    app = lab.app(recorder)
    app.add_hook(events)
    app.start()
    wait_for(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    problem = wait_for(lambda: events.of(ConnectionProblem))[0]
    assert problem.code in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}
    assert "check" in problem.error
    assert not problem.fatal
    lab.broker.bring_up()
    app.stop()
