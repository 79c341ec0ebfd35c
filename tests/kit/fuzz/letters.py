"""Hostile dead letters: what the reader of origins and the way back make of any headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ehkafka.records import Record, TopicPartition
from ehkafka.recovery.letters.letter import Header, LetterFilter, headers_back, letter_of, letter_origin
from tests.kit.fuzz.target import Target, any_text
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    import random

_NUMBERS = (b"7", b"0", b"-1", b"9" * 19, b"9" * 5_000, "٣".encode(), b"1_0", b" 1", b"")


def _letter(rng: random.Random) -> SimulatedMessage:
    headers: list[tuple[str, bytes | None]] = [
        (Header.ORIGIN_TOPIC.value, b"readings"),
        (Header.ORIGIN_PARTITION.value, b"3"),
    ]
    for _ in range(rng.randrange(12)):
        name = rng.choice((rng.choice(list(Header)).value, "ehkafka-redriven", any_text(rng, 8)))
        headers.append((name, rng.choice((None, rng.randbytes(8), rng.choice(_NUMBERS)))))
    rng.shuffle(headers)
    return SimulatedMessage("dead", 0, 5, rng.randbytes(4), rng.randbytes(9), headers=headers)


def _judge(message: SimulatedMessage) -> bool:
    record = Record(message)
    origin = letter_origin(record)
    # A dead letter may fail as well, and then becomes one itself.
    letter_of(
        message, TopicPartition("dead", 0), error=None, reason="x", attempts=1, failed_at_s=2.0,
        handler="h", group="g",
    )  # fmt: skip
    if origin is None:
        return False
    assert origin.partition.partition >= 0
    assert origin.redriven >= 0
    LetterFilter(error="x").takes(record, origin)
    back = [name for name, _ in headers_back(record, origin)]
    assert not {*back} & {*map(str, Header)}, "a header of ours goes back"
    return True


TARGET: Final = Target("headers of dead letters", _letter, _judge, 5_000)
