"""A partition that acknowledges nothing is named, while messages wait for it."""

from __future__ import annotations

from typing import Any

from ehkafka.outputs.standing import STANDS_S, Standing


def of(number: int, acknowledged: int = 0, **counts: int) -> dict[str, int]:
    """Return what statistics say of a partition: nothing waits but what `counts` say."""
    here = {"partition": number, "msgs": acknowledged, "txmsgs": acknowledged, "acked_msgid": acknowledged}
    return {**here, "leader": 1, "msgq_cnt": 0, "xmit_msgq_cnt": 0, **counts}


def statistics(*partitions: dict[str, int]) -> dict[str, Any]:
    """Return the statistics of a client that numbers its messages."""
    found = {str(one["partition"]): one for one in partitions}
    return {"topics": {"out": {"partitions": found}}, "eos": {}}


def test_a_partition_that_acknowledges_nothing_is_named_with_the_time() -> None:
    """As long as messages wait for it; one that goes on, and one without messages, are not."""
    standing = Standing()
    for step, now_s in enumerate((0.0, STANDS_S - 1, STANDS_S)):
        assert standing.problem is None
        standing.take(
            statistics(of(0, 7, msgs=12), of(1, 7 + step, msgs=12), of(2, 7), of(-1, msgs=5)), now_s
        )
    assert standing.problem == "out[0] has acknowledged nothing for 5 s"
    standing.take(statistics(of(0, 8, msgs=13)), STANDS_S + 1)
    assert standing.problem is None


def test_the_first_of_several_is_named_with_how_many_more_there_are() -> None:
    """The one that has stood for longest."""
    standing = Standing()
    standing.take(statistics(of(3, msgs=1)), 0.0)
    standing.take(statistics(of(1, msgs=1), of(2, msgs=1), of(3, msgs=1)), 1.0)
    standing.take(statistics(of(1, msgs=1), of(2, msgs=1), of(3, msgs=1)), 11.0)
    assert standing.problem == "out[3] (and 2 more partitions) has acknowledged nothing for 11 s"


def problems(*seen: dict[str, int]) -> list[str | None]:
    """Return what is wrong after each of the statistics of a partition, which come STANDS_S apart."""
    standing, found = Standing(), []
    for step, one in enumerate(seen):
        standing.take(statistics(one), step * STANDS_S)
        found.append(standing.problem)
    return found


STANDS = "out[0] has acknowledged nothing for 5 s"


def test_messages_that_are_sent_again_and_again_wait_however_few_were_counted() -> None:
    """Those that come in batches are not counted: fewer messages than are acknowledged (librdkafka 2.16)."""
    tries = [of(0, 9, msgs=4, txmsgs=sent) for sent in (9, 12, 15)]
    assert problems(*tries) == [None, None, STANDS]
    assert problems(*tries, of(0, 12, msgs=4, txmsgs=18), of(0, 12, msgs=4, txmsgs=18)) == [
        None,
        None,
        STANDS,
        None,
        None,
    ]


def test_messages_in_a_queue_wait() -> None:
    """A partition without a leader."""
    for queue in ("msgq_cnt", "xmit_msgq_cnt"):
        waiting = of(0, 9, msgs=4, **{queue: 3})
        assert problems(waiting, waiting, of(0, 12, msgs=4)) == [None, STANDS, None]


def test_what_waits_only_now_has_not_waited_before() -> None:
    """Nothing came for a while."""
    assert problems(of(0, 9), of(0, 9), of(0, 9, msgq_cnt=1)) == [None, None, None]


def test_a_client_that_numbers_nothing_stands_where_its_queue_does() -> None:
    """It counts no acknowledgements, so what it has sent is its progress."""
    standing = Standing()
    for step in range(3):
        plain = statistics(of(0, msgs=9 * step, txmsgs=8 * step, msgq_cnt=step))
        standing.take({"topics": plain["topics"]}, step * STANDS_S)
        assert standing.problem is None
    plain = statistics(of(0, msgs=20, txmsgs=16, msgq_cnt=4))
    for step in range(3, 5):
        standing.take({"topics": plain["topics"]}, step * STANDS_S)
    assert standing.problem == "out[0] has acknowledged nothing for 10 s"


def test_the_brokers_that_lead_partitions_are_counted() -> None:
    """One at least: before it is known, and while a partition has none."""
    standing = Standing()
    assert standing.leaders == 1
    standing.take(statistics(of(0, leader=-1)), 0.0)
    assert standing.leaders == 1
    standing.take(statistics(of(0, leader=4), of(1, leader=7), of(2, leader=4), of(3, leader=-1)), 0.0)
    assert standing.leaders == 2
