"""`app.producer` keeps a key's order, whatever a broker refuses, and other partitions go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import NotDeliveredError
from ehkafka.testing import ApiKey
from tests.contract.test_app_producer import LIMIT_S, idle, values

if TYPE_CHECKING:
    from concurrent.futures import Future


@pytest.mark.parametrize("codes", [(89,), (0, 89), (87,), (0, 87), (87, 87), (0, 87, 87)])
def test_what_is_refused_for_now_is_not_passed_by_others_of_its_key(
    out: Any, read_topic: Any, codes: tuple[int, ...]
) -> None:
    """The client has more of the key ready by then. Of a refused batch each message is sent alone."""
    app = out.start(idle, producer={"batch.num.messages": 5})
    app.producer.send("audit", b"-1", key="k", partition=0).result(LIMIT_S)
    out.broker.fail_next(ApiKey.PRODUCE, *codes)
    sent = [app.producer.send("audit", b"%d" % number, key="k", partition=0) for number in range(100)]
    assert app.producer.flush(LIMIT_S) == 0
    written = [-1, *(number for number, one in enumerate(sent) if one.exception(0.0) is None)]
    assert 101 - len(written) == (codes.count(87) == 2)
    assert [int(value) for value in values(read_topic("audit", len(written)))] == written


def test_a_message_for_a_partition_without_a_leader_times_out_and_the_others_go_on(
    out: Any, read_topic: Any
) -> None:
    """What has failed is not written later."""
    for leader in (None, 1):  # the first time cuts all connections
        out.broker.move_leader("audit", 1, leader)
    app = out.start(idle, producer={"message.timeout.ms": 2_000})
    app.producer.send("audit", b"0", partition=1).result(LIMIT_S)
    out.broker.move_leader("audit", 1, None)
    lost = app.producer.send("audit", b"lost", partition=1)
    sent: list[Future[Any]] = []
    while not lost.done():
        sent.append(app.producer.send("audit", b"%d" % len(sent), key="k", partition=0))
        time.sleep(0.01)
    with pytest.raises(NotDeliveredError, match=r"not delivered: .*(time|TIME)"):
        lost.result()
    out.broker.move_leader("audit", 1, 1)
    app.producer.send("audit", b"1", partition=1).result(LIMIT_S)
    assert app.producer.flush(LIMIT_S) == 0
    app.stop()
    assert values(read_topic("audit", len(sent) + 2)).count(b"lost") == 0
    assert [one.result(0.0).offset for one in sent] == list(range(len(sent)))
