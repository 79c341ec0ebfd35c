"""A partition that acknowledges nothing is named, while messages wait for it."""

from __future__ import annotations

from typing import Any

from ehkafka.outputs.standing import STANDS_S, Standing


def statistics(*partitions: tuple[int, int, int]) -> dict[str, Any]:
    """Return statistics with the number, how many wait and how many are acknowledged of each partition."""
    found = {
        str(number): {
            "partition": number,
            "msgs": acknowledged + waiting,
            "acked_msgid": acknowledged,
        }
        for number, waiting, acknowledged in partitions
    }
    return {"topics": {"out": {"partitions": found}}}


def test_a_partition_that_acknowledges_nothing_is_named_with_the_time() -> None:
    """As long as messages wait for it; one that goes on, and one without messages, are not."""
    standing = Standing()
    for step, now_s in enumerate((0.0, STANDS_S - 1, STANDS_S)):
        assert standing.problem is None
        standing.take(statistics((0, 5, 7), (1, 5, 7 + step), (2, 0, 7), (-1, 5, 0)), now_s)
    assert standing.problem == "out[0] has acknowledged nothing for 5 s"
    standing.take(statistics((0, 5, 8)), STANDS_S + 1)
    assert standing.problem is None


def test_the_first_of_several_is_named_with_how_many_more_there_are() -> None:
    """The one that has stood for longest."""
    standing = Standing()
    standing.take(statistics((3, 1, 0)), 0.0)
    standing.take(statistics((1, 1, 0), (2, 1, 0), (3, 1, 0)), 1.0)
    standing.take(statistics((1, 1, 0), (2, 1, 0), (3, 1, 0)), 11.0)
    assert standing.problem == "out[3] (and 2 more partitions) has acknowledged nothing for 11 s"
