"""A real broker that says for a while of one output partition that its leader is another one."""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

import ehkafka
from ehkafka.events import OutputRefused
from tests.integration.answering import MODES
from tests.kit.topic_read import read_all
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.broker
DEAD = 1
COMMIT_S = 10.0
HEALTH_S = 20.0
ROUNDS = 5
RECORDS = 100


@pytest.mark.parametrize("mode", MODES)
def test_one_output_partition_without_a_leader(answering: Callable[[str], Any], mode: str) -> None:
    """At least once, records whose outputs go elsewhere are committed meanwhile, and none is sent twice.

    A transaction is written to all of its partitions or to none: exactly once waits, and says for what.
    """
    one = answering(mode)
    # Keys of the first input partition alone go to the partition that is to have no leader.
    one.send = lambda record, place: ehkafka.Send(place, partition=DEAD if record.partition() == 0 else 0)
    app = one.made()
    app.start()
    one.produce(RECORDS)
    one.stage.wait_until_committed(one.load.ends)
    assert one.load.ends.keys() == {0, 1, 2, 3}
    stays = one.load.ends[0]
    no_leader = KafkaError.NOT_LEADER_FOR_PARTITION
    one.proxy.code_of = lambda request: (
        no_leader if (request.topic, request.partition) == (one.out, DEAD) else 0
    )
    began_s = time.monotonic()
    one.produce(RECORDS)
    time.sleep(max(0.0, began_s + 1.5 - time.monotonic()))
    early = dict(one.load.ends)
    for _ in range(ROUNDS):
        one.produce(RECORDS)
        if not one.is_exact:  # else the broker tells no commits before its transaction has ended
            others = {number: end for number, end in one.load.ends.items() if number != 0}
            one.stage.wait_until_committed(others, COMMIT_S)
            assert one.stage.committed()[0] == stays
    named = re.compile(rf"{re.escape(one.out)}\[{DEAD}\]")
    wait_until(lambda: named.search(" ".join(app.health().reasons)), timeout_s=HEALTH_S)
    assert app.snapshot().lag_records
    one.proxy.code_of = lambda _request: 0
    one.stage.wait_until_committed(one.load.ends)
    wait_until(lambda: app.health().ok)
    app.stop()
    assert one.events.of(OutputRefused) == []
    assert one.letters() == []
    sent = read_all(one.stage.broker.bootstrap, one.out)
    found = one.wrong(sent)
    assert found == [], f"FACT: outputs are lost, repeated or out of order: {found[:20]}"
    times = Counter(place for _, place in sent)
    later = [place for place in times if int(place.split(b":")[1]) >= early[int(place.split(b":")[0])]]
    assert len(later) == sum(one.load.ends.values()) - sum(early.values())
    repeated = {place: times[place] for place in later if times[place] > 1}
    assert repeated == {}, f"FACT: {repeated}"
    assert max(times.values()) <= (1 if one.is_exact else 2)
