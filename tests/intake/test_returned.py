"""What a stop says of finished records that its last commits leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.intake.membership import Released
from ehkafka.intake.returned import ReturnedRecords
from ehkafka.progress.ledger import Position
from ehkafka.progress.metadata import LogFacts, encode
from ehkafka.records import TopicPartition

if TYPE_CHECKING:
    from ehkafka.progress.ranges import Ranges

PARTITION = TopicPartition("t", 0)


def words(finished: tuple[int, Ranges], committed: tuple[int, Ranges], *, is_bounded: bool = False) -> str:
    """Return the sentence for one partition."""
    next_offset, above = committed
    text = encode(next_offset, LogFacts(), above, None, 4000).text
    released = Released([], {PARTITION: Position(1, next_offset, None, text)}, 0)
    bounded = frozenset({PARTITION} if is_bounded else ())
    return ReturnedRecords((), 0, (), {PARTITION: finished}, bounded=bounded).unsaved(released)


def test_a_commit_that_came_later_may_say_more() -> None:
    """The record below, and one above, ended after what is finished was counted."""
    assert words((5, ((6, 20),)), (20, ())) == ""
    said = words((5, ((6, 20),)), (18, ((19, 30),)))
    assert said.startswith("1 finished record of t[0] could not be saved with the commit")


def test_what_the_text_leaves_out_is_counted_by_its_offsets() -> None:
    """Also where the text says as many others."""
    assert words((5, ((6, 20),)), (5, ((6, 20),))) == ""
    assert "Give the app a mirror" in words((5, ((6, 20),)), (5, ((6, 16), (40, 44))))


def test_room_is_not_blamed_where_an_output_is_refused() -> None:
    """The commit stops below its record."""
    said = words((9, ((11, 12),)), (5, ()), is_bounded=True)
    assert said.startswith("Not committed: 5 finished records of t[0], because an output")
    assert "mirror" not in said
