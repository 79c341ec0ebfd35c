"""Brokers, topics and logs that go away: what the app hears, and when it ends."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.endpoint.entra.token_source import TokenSource
from ehkafka.events import (
    AppStopping,
    ConnectionProblem,
    CredentialRotated,
    CredentialUnusable,
    PartitionLost,
)
from ehkafka.records import TopicPartition
from ehkafka.run.observation import commit_problem
from tests.contract.conftest import ends_with
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_connection_errors_reach_on_error_and_do_not_stop_the_app(
    lab: Any, recorder: Any, events: Any
) -> None:
    """A broker that is down is reported with kind `connection`; when it is back, records flow again.

    The event carries librdkafka's code, its words and what usually causes it.
    """
    asked: list[Any] = []
    app = lab.app(recorder)
    app.on_error(lambda *arguments: asked.append(arguments))
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    (kind, partition, record, error) = wait_until(lambda: asked)[0]
    assert (kind, partition, record) == ("connection", None, None)
    assert error.name() == "_ALL_BROKERS_DOWN"
    problem = wait_until(lambda: events.of(ConnectionProblem))[0]
    assert problem.code in {"_TRANSPORT", "_ALL_BROKERS_DOWN"}
    assert "check" in problem.error
    assert not problem.fatal
    assert app.state == "running"
    lab.broker.bring_up()
    lab.produce("a")
    wait_until(lambda: recorder.count == 1)


def test_on_error_may_stop_the_app_for_a_connection_error(lab: Any, recorder: Any) -> None:
    """Answering `stop` ends it with an EndpointError, exit code 3, although the broker stays away."""
    app = lab.app(recorder, stop_s=1.0)
    app.on_error(lambda *_arguments: "stop")
    app.start()
    wait_until(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    error = ends_with(app, ehkafka.errors.EndpointError, "on_error stopped the app")
    assert error.exit_code == 3


def test_a_topic_that_is_deleted_while_the_app_runs_ends_it(lab: Any, recorder: Any) -> None:
    """TopicNotFoundError names the topic and those that are there."""
    lab.produce("a", topic="u")
    app = lab.start(recorder, "u", consumer={"topic.metadata.refresh.interval.ms": 200})
    wait_until(lambda: recorder.count == 1)
    lab.broker.delete_topic("u")
    error = ends_with(app, ehkafka.errors.TopicNotFoundError, "'u'")
    assert error.exit_code == 3


def test_partitions_that_are_lost_while_no_broker_answers(lab: Any, recorder: Any, events: Any) -> None:
    """No group has gone on without this member: the line says that no broker has answered, and since when."""
    app = lab.start(recorder)
    wait_until(lambda: app.snapshot().partitions)
    lab.broker.take_down()
    (lost,) = wait_until(lambda: events.of(PartitionLost))
    assert "no broker has answered for" in lost.sentence()
    lab.broker.bring_up()


@pytest.mark.parametrize("is_idle", [True, False])
def test_problem_with_the_connection_ends_with_a_record_or_an_answer(lab: Any, *, is_idle: bool) -> None:
    """It was red for 15 s after a key was rotated; an idle app sends a position again for a proof."""
    app = lab.start(lambda _record: None)
    lab.produce("a")
    wait_until(lambda: lab.committed() == 1)
    for _ in range(1 + is_idle):  # the next refusal begins it anew
        app.current_run.connection.on_error(KafkaError(KafkaError._AUTHENTICATION, "refused"))
        assert "_AUTHENTICATION" in app.health().reasons[0]
        wait_until(
            lambda: app.health().ok, timeout_s=10.0, meanwhile=None if is_idle else lambda: lab.produce("a")
        )


def test_a_failed_commit_is_no_problem_once_its_partition_is_anothers() -> None:
    """No acknowledgement of ours would ever end it; an ended run keeps its last words."""
    committer = SimpleNamespace(problem="no coordinator", failed_partitions=frozenset({P0}))
    ending = SimpleNamespace(is_done=False)
    runtime: Any = SimpleNamespace(context=SimpleNamespace(committer=committer, owned={P0: 1}), ending=ending)
    assert commit_problem(runtime) == "no coordinator"
    runtime.context.owned = {P1: 1}
    assert commit_problem(runtime) is None
    ending.is_done = True
    assert commit_problem(runtime) == "no coordinator"


# --- keys that change ---


def secret(key: str) -> str:
    """Return a connection string."""
    return f"Endpoint=sb://ns.example.test/;SharedAccessKeyName=app;SharedAccessKey={key}"


def write(path: Path, key: str) -> None:
    """Put a key into the file at once, as a mount does: no reader gets half of it."""
    following = path.with_name("following")
    following.write_text(secret(key))
    following.replace(path)


def rotating(lab: Any, path: Path) -> ehkafka.Endpoint:
    """Return the lab's endpoint with the credential of another; the embedded broker does not look at it."""
    return dataclasses.replace(lab.endpoint, credential=ehkafka.Endpoint.connection_string(path).credential)


def test_an_app_takes_up_a_changed_key_and_tells_it(
    lab: Any, recorder: Any, events: Any, tmp_path: Path
) -> None:
    """A file that goes missing, and comes back with another key, is reported as that; records go on."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    lab.produce("a b c")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(lambda: recorder.count == 3)
    path.unlink()
    wait_until(lambda: events.of(CredentialUnusable))
    lab.produce("d e f")
    wait_until(lambda: recorder.count == 6)
    write(path, "bmV3bmV3bmV3")
    wait_until(lambda: events.of(CredentialRotated))
    app.stop()
    assert events.of(CredentialRotated) == [CredentialRotated(f"file {path}")]
    assert app.snapshot().counters["CredentialUnusable"] == len(events.of(CredentialUnusable))


def test_a_key_that_changes_during_a_drain_is_taken_up(
    lab: Any, recorder: Any, events: Any, tmp_path: Path
) -> None:
    """The commit at the end of a long drain is not refused because of a key of before it."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    gate = recorder.block()
    lab.produce("a b c")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(lambda: len(recorder.started) == 3)
    stopping = threading.Thread(target=app.stop)
    stopping.start()
    wait_until(lambda: events.of(AppStopping))
    write(path, "bmV3bmV3bmV3")
    wait_until(lambda: events.of(CredentialRotated))
    assert recorder.count == 0
    gate.set()
    stopping.join(15.0)
    assert lab.committed() == 3


def test_health_names_a_key_that_cannot_be_read_again_while_that_lasts(
    lab: Any, recorder: Any, tmp_path: Path
) -> None:
    """Health shows it before the old key is withdrawn; green again afterwards."""
    path = tmp_path / "key"
    write(path, "b2xkb2xkb2xk")
    app = lab.start(recorder, endpoint=rotating(lab, path))
    wait_until(app.health)
    path.unlink()
    wait_until(lambda: not app.health())
    (reason,) = app.health().reasons
    assert f"file {path}" in reason
    assert "does not exist" in reason
    write(path, "b2xkb2xkb2xk")
    wait_until(app.health)


def test_health_names_problem_with_tokens(lab: Any, recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded broker asks for no token, so the endpoint only carries a source with a problem."""
    tokens = TokenSource(lambda: None, "home.servicebus.windows.net")
    monkeypatch.setattr(TokenSource, "sign_in", lambda *_arguments: None)
    app = lab.start(recorder, endpoint=dataclasses.replace(lab.endpoint, tokens=tokens))
    wait_until(app.health)
    tokens.oauth_cb("")
    wait_until(lambda: not app.health())
    assert "No new token for home.servicebus.windows.net" in app.health().reasons[0]
    app.stop()
    assert app.health().reasons == ("The app is stopped.",)
