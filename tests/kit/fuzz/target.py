"""What a fuzzer is: it invents inputs, and judges what the code under test makes of each."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

# No input that fits into a record or a request may take longer; a thread that waits for a CPU costs nothing.
CPU_S_MAX: Final = 2.0
SHOWN_CHARACTERS: Final = 2_000


class Failure(Exception):  # noqa: N818 - a finding, not an error of the caller
    """An input that broke a rule; the message has the input, which `judge` takes again."""

    def __init__(self, given: object, text: str) -> None:
        super().__init__(f"{text}: {given!r:.{SHOWN_CHARACTERS}}")


@dataclass(frozen=True)
class Target:
    """One decoder, or a few that read the same kind of input."""

    what: str
    # Returns an input, drawn from the generator alone: so a seed replays.
    invent: Callable[[random.Random], Any]
    # Tells whether the input was taken; raises whatever is wrong.
    judge: Callable[[Any], bool]
    # About a second's worth.
    inputs_per_seed: int

    def run(self, seed: int, inputs: int | None = None) -> int:
        """Judge a seed's inputs, all or so many; return how many were taken. Raises `Failure`."""
        rng = random.Random(seed)
        return sum(self.check(self.invent(rng)) for _ in range(inputs or self.inputs_per_seed))

    def check(self, given: Any) -> bool:
        """Judge one input. Raises `Failure` for whatever `judge` raises, and for one that takes too long."""
        began_s = time.thread_time()
        try:
            taken = self.judge(given)
        except BaseException as error:
            raise Failure(given, f"{type(error).__name__}: {error}") from error
        if (took_s := time.thread_time() - began_s) > CPU_S_MAX:
            raise Failure(given, f"took {took_s:.1f} s of CPU")
        return taken


def damaged(rng: random.Random, data: bytes, likely: bytes = b"\x00\xff") -> bytes:
    """Return bytes cut, doubled, changed or grown at one to three places."""
    found = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0:
                del found[at:]
            case 1:
                found[at:at] = rng.randbytes(rng.randrange(1, 4))
            case 2:
                found[at : at + 1] = bytes([rng.choice(likely)])
            case 3:
                found[at:at] = found[at : at + rng.randrange(1, 20)]
            case _:
                found[at : at + 4] = b"\xff\xff\xff\xff"
    return bytes(found)


def any_text(rng: random.Random, length_max: int = 40) -> str:
    """Return text of any characters, halves of surrogates included."""
    kinds = ((32, 127), (0, 32), (128, 0x2FF), (0xD7F0, 0xE010), (0x1F300, 0x1F700))
    return "".join(chr(rng.randrange(*rng.choice(kinds))) for _ in range(rng.randrange(length_max)))


_INTEGERS: Final = (0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63))
_LONG_INTEGERS: Final = (*_INTEGERS, 2**63, 2**64, 10**30)


def any_value(rng: random.Random, depth: int = 0, integers: tuple[int, ...] = _LONG_INTEGERS) -> Any:
    """Return what JSON can say, often at the edge of a type."""
    match rng.randrange(7 if depth < 3 else 5):
        case 0:
            return rng.choice((None, True, False))
        case 1:
            return rng.choice(integers)
        case 2:
            return rng.choice((0.0, -1.5, 1e308, 1.0, 5e-324))
        case 3 | 4:
            return any_text(rng) if rng.random() < 0.9 else rng.choice("[{9x") * 5_000
        case 5:
            return [any_value(rng, depth + 1, integers) for _ in range(rng.randrange(4))]
        case _:
            return {any_text(rng, 8): any_value(rng, depth + 1, integers) for _ in range(rng.randrange(4))}


def small_value(rng: random.Random) -> Any:
    """Return the same with integers of 64 bits, beyond which readers of JSON make floats."""
    return any_value(rng, integers=_INTEGERS)
