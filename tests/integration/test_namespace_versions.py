"""Apache Kafka that offers an Event Hubs namespace's versions of requests: no topic ids, no leader epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import LogReplaced
from tests.kit.events import Events
from tests.kit.namespace_versions import NAMESPACE
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker


def test_an_app_keeps_its_promises_with_the_versions_of_a_namespace(
    stage_on: Callable[..., Any], far_kafka: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, outputs and commits across a restart; then another log is recognised without a topic's id."""
    monkeypatch.setattr("ehkafka.run.connection.refresh_s", lambda _properties: 1.0)
    broker, far = far_kafka
    far.versions = NAMESPACE
    stage = stage_on(broker, 2)
    seen, replaced = list[Any](), Events()
    out = f"{stage.topic}-out"
    broker.create_topic(out, 1)

    def handle(record: ehkafka.Record) -> bytes | None:
        seen.append((record.partition(), record.offset()))
        return record.value()

    def app() -> ehkafka.App:
        endpoint = ehkafka.Endpoint.kafka(far.address)
        options = {"to": out, "commit_interval_s": 0.1, "on_out_of_range": "earliest"}
        made: ehkafka.App = stage.app(handle, endpoint=endpoint, **options)
        made.add_hook(replaced)
        return made

    for count in (300, 200):  # the second app goes on where the first one has stopped
        load = stage.load()
        load.produce(count)
        running = app()
        running.start()
        stage.wait_until_committed(load.ends)
        if count == 300:
            running.stop()
    assert len(seen) == len(set(seen)) == 500
    assert len(read_all(broker.bootstrap, out)) == 500
    assert not replaced.of(LogReplaced)
    broker.delete_topic(stage.topic)
    broker.create_topic(stage.topic, 2)
    seen.clear()
    load = stage.load()
    load.produce(1_500)
    wait_until(lambda: len(set(seen)) == 1_500, lambda: f"{len(set(seen))} of 1500", timeout_s=60.0)
    stage.wait_until_committed(load.ends)
    running.stop()
    assert {"the record at" in event.reason for event in replaced.of(LogReplaced)} == {True}
    assert far.changed_answers
    assert far.foreign == []
