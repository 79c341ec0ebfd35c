"""Outputs of members that are killed and come and go, on a broker that refuses some and forgets an id.

A few kills in every run; that many for each kind of workers, an hour in all:

    STRESS_KILLS=20 scripts/test --no-lint -k test_kills
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from ehkafka import DeadLetter
from ehkafka.testing import ApiKey, EmbeddedBroker
from tests.contract.outputs_order import problems
from tests.integration.output_kills import WORKERS, Guest, Killing, inputs_of, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KILLS = int(os.environ.get("STRESS_KILLS", "0"))
# Twenty kills take two to three minutes for each kind of workers, on a machine of their own.
ON_DEMAND = pytest.mark.skipif(not KILLS, reason="runs where STRESS_KILLS says how many kills")
PATIENT = pytest.mark.timeout(1_800 + 180 * KILLS)
RATE = 400.0
# The embedded broker forms the group again a session less one second after the first member has joined, and
# waits for nobody who still drains: then a partition has two owners, and nothing keeps two in order.
EMBEDDED_SESSION_MS = 4000


@pytest.mark.broker
def test_one_output_that_is_too_large_takes_no_other_with_it(stage: Any) -> None:
    """The broker refuses the whole batch; those that were with it arrive, and none of them is a letter."""
    out, dead = f"{stage.topic}-out", f"{stage.topic}-dead"
    stage.broker.create_topic(out, 1, {"max.message.bytes": "200000"})
    stage.broker.create_topic(dead, 1)
    load = stage.load()
    load.produce(400)
    # In batches with others, and so are those that are sent again.
    large = (0, load.ends[0] // 2)

    def handle(record: Any) -> bytes:
        place = record.partition(), record.offset()
        return b"%d:%d" % place + (os.urandom(300_000) if place == large else b"")

    app = stage.app(handle, to=out, on_failure=DeadLetter(dead))
    app.start()
    stage.wait_until_committed(load.ends)
    app.stop()
    inputs, _ = inputs_of(stage, 0)
    key = next(key for key, values in inputs.items() if b"%d:%d" % large in values)
    inputs[key].remove(b"%d:%d" % large)
    outputs = [(message.key(), message.value()) for message in read_all(stage.broker.bootstrap, out, 1)]
    assert problems(inputs, outputs) == []
    (letter,) = read_all(stage.broker.bootstrap, dead, 1)
    assert dict(letter.headers())["ehkafka-origin-offset"] == b"%d" % large[1]


@pytest.mark.broker
@pytest.mark.timeout(300)
def test_a_group_of_all_kinds_of_workers_of_which_each_is_killed_once(stage: Any) -> None:
    """Each kind takes over what another one has left, with outputs that are refused in between."""
    workers = {**WORKERS, "processes": 1}
    killing = Killing(stage, [*WORKERS], kills=len(WORKERS), large_every=100, workers=workers)
    load = stage.load(RATE / 4)
    load.start()
    killing.start()
    killing.kill_all_in_turn()
    load.stop()
    killing.end(load.ends)
    killing.judge()


@ON_DEMAND
@PATIENT
@pytest.mark.broker
@pytest.mark.parametrize("kind", WORKERS)
def test_kills_and_refused_outputs_on_kafka(stage: Any, kind: str) -> None:
    """One output in a thousand is too large for its topic: its record is a letter, and no other suffers."""
    killing = Killing(stage, [kind] * 2, kills=KILLS, large_every=1_000)
    killing.judge_under(stage.load(RATE), kind)


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    """Return a broker that can be made to answer with errors; it outlives the stage."""
    with EmbeddedBroker() as broker:
        yield broker


@ON_DEMAND
@PATIENT
@pytest.mark.slow
@pytest.mark.parametrize("kind", WORKERS)
def test_kills_closed_connections_and_requests_to_repeat(
    embedded: EmbeddedBroker, stage_on: Callable[..., Any], kind: str
) -> None:
    """Some requests are to be sent again, others get no answer.

    A refused one would prove nothing here: this broker looks at no sequence number, so it takes what its
    client has ready behind a refused request, which Kafka refuses, too.
    """
    stage = stage_on(embedded)
    killing = Killing(stage, [kind] * 2, kills=KILLS, session_ms=EMBEDDED_SESSION_MS)
    load = stage.load()
    load.produce(1_500 * KILLS)
    to_repeat, closed = KafkaError.NOT_ENOUGH_REPLICAS, KafkaError._TRANSPORT
    embedded.fail_next(ApiKey.PRODUCE, *([0] * 49 + [to_repeat] + [0] * 49 + [closed]) * 10 * KILLS)
    killing.start()
    with Guest(killing.member("guest", kind)) as guest:
        killing.kill_at_random()
    killing.end(load.ends)
    assert set(guest.codes) == {0}, stage.logs()
    killing.judge()
