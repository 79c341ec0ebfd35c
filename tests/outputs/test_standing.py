"""A partition that acknowledges nothing is named, while messages wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from ehkafka.outputs.standing import STANDS_S, StalledPartitions

STANDS = "the leader of out[0] has acknowledged nothing for 5 s"


def of(number: int, acknowledged: int = 0, **counts: int) -> dict[str, int]:
    """Return the statistics of a partition: nothing waits, except as `counts` say."""
    here = {"partition": number, "msgs": acknowledged, "txmsgs": acknowledged, "acked_msgid": acknowledged}
    return {**here, "leader": 1, "msgq_cnt": 0, "xmit_msgq_cnt": 0, **counts}


def statistics(*partitions: dict[str, int], are_numbered: bool = True) -> dict[str, Any]:
    """Return the statistics of a client, which may number its messages."""
    found = {str(one["partition"]): one for one in partitions}
    return {"topics": {"out": {"partitions": found}}, **({"eos": {}} if are_numbered else {})}


TRIES = [of(0, 9, msgs=4, txmsgs=sent) for sent in (9, 12, 15)]
DONE = of(0, 12, msgs=4, txmsgs=18)
QUEUED, SENT_QUEUED = (of(0, 9, msgs=4, **{queue: 3}) for queue in ("msgq_cnt", "xmit_msgq_cnt"))
PLAIN = [of(0, msgs=9 * step, txmsgs=8 * step, msgq_cnt=step) for step in range(3)]
PLAIN_STANDS = of(0, msgs=20, txmsgs=16, msgq_cnt=4)


@pytest.mark.parametrize(
    ("seen", "problems", "are_numbered"),
    [
        # Sent again and again: messages of batches are not counted (librdkafka 2.16), but tries are.
        ([*TRIES, DONE, DONE], [None, None, STANDS, None, None], True),
        # In a queue, as for a partition without a leader.
        ([QUEUED, QUEUED, of(0, 12, msgs=4)], [None, STANDS, None], True),
        ([SENT_QUEUED, SENT_QUEUED, of(0, 12, msgs=4)], [None, STANDS, None], True),
        # What waits only now has not waited before.
        ([of(0, 9), of(0, 9), of(0, 9, msgq_cnt=1)], [None, None, None], True),
        # Without numbers a client counts no acknowledgements, so its progress is what it has sent.
        ([*PLAIN, PLAIN_STANDS], [None, None, None, STANDS], False),
    ],
)
def test_messages_that_wait_without_progress_are_a_problem(
    seen: list[dict[str, int]], problems: list[str | None], are_numbered: bool
) -> None:
    """Statistics of one partition, `STANDS_S` apart."""
    standing, found = StalledPartitions(), []
    for step, one in enumerate(seen):
        standing.take(statistics(one, are_numbered=are_numbered), step * STANDS_S)
        found.append(standing.problem)
    assert found == problems


def test_the_partition_that_has_waited_for_longest_is_named_with_the_number_of_others() -> None:
    """One that goes on, one without messages, and messages without a partition yet are no problem."""
    standing = StalledPartitions()
    fine = of(4, 7), of(-1, msgs=5)
    standing.take(statistics(of(3, msgs=1), *fine, of(5, 7, msgs=12)), 0.0)
    for now_s in (1.0, 11.0):
        assert standing.problem is None
        others = of(1, msgs=1), of(2, msgs=1), of(5, 7 + int(now_s), msgs=30)
        standing.take(statistics(of(3, msgs=1), *others, *fine), now_s)
    words = "the leader of out[3] (and 2 more partitions) has acknowledged nothing for 11 s"
    assert standing.problem == words


def test_the_brokers_that_lead_partitions_are_counted() -> None:
    """One at least: before it is known, and while a partition has none."""
    standing = StalledPartitions()
    assert standing.leaders == 1
    standing.take(statistics(of(0, leader=-1)), 0.0)
    assert standing.leaders == 1
    standing.take(statistics(of(0, leader=4), of(1, leader=7), of(2, leader=4), of(3, leader=-1)), 0.0)
    assert standing.leaders == 2
