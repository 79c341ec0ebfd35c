"""What supervisor and member say to each other: any values, cut anywhere, damaged, or never ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.members.channel import Lines, line
from tests.kit.fuzz.target import Target, damaged, small_value

if TYPE_CHECKING:
    import random


class Stream(NamedTuple):
    """Pieces as they arrive, and how many messages they are. None: they are damaged."""

    pieces: tuple[bytes, ...]
    messages: int | None


def _stream(rng: random.Random) -> Stream:
    messages: list[dict[str, Any]] = [
        {"id": number, "answer": small_value(rng)} for number in range(rng.randrange(1, 5))
    ]
    whole = b"".join(map(line, messages))
    is_damaged = rng.random() < 0.4
    if is_damaged:
        whole = damaged(rng, whole)
    size = rng.choice((1, 3, 4, 100, len(whole) + 1))
    pieces = tuple(whole[at : at + size] for at in range(0, len(whole), size))
    return Stream(pieces, None if is_damaged else len(messages))


def _judge(stream: Stream) -> bool:
    lines, found = Lines(), []
    try:
        for piece in stream.pieces:
            found += lines.feed(piece)
    except ValueError:  # no JSON, no message: the member is killed
        assert stream.messages is None, "whole messages are refused"
        return False
    if stream.messages is not None:
        assert [one["id"] for one in found] == list(range(stream.messages))
    return True


TARGET: Final = Target("messages of supervisors and members", _stream, _judge, 3_000)
