"""Of which keys a client may be given more: those whose first output by it is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.outputs import known_keys
from ehkafka.outputs.known_keys import COUNTS_S, KnownKeys
from ehkafka.outputs.output import Output

if TYPE_CHECKING:
    from collections.abc import Iterable


def output(key: bytes | None, topic: str = "out", partition: int = -1) -> Output:
    """Return an output of a key."""
    way: Any = None
    return Output(way, (), topic, b"value", key, None, partition)  # type: ignore[arg-type]


def learn(known: KnownKeys, keys: Iterable[bytes]) -> None:
    """Have the first output of each key acknowledged, in a partition of its own."""
    for number, key in enumerate(keys):
        assert known.may_go(output(key))
        known.acknowledged(output(key), number)


def test_the_second_output_of_a_key_waits_for_the_first_ones_acknowledgement() -> None:
    """A broker takes any number as a client's first one: behind a refused first output it would pass."""
    known = KnownKeys()
    assert known.may_go(output(b"a"))
    assert not known.may_go(output(b"a"))
    assert known.may_go(output(b"a", partition=2))
    assert known.may_go(output(b"a", "other"))
    assert known.partitions("out", [b"a"]) == [None]
    known.acknowledged(output(b"a"), 1)
    assert known.may_go(output(b"a"))
    assert known.partitions("out", [b"a", b"a"]) == [1, 1]
    assert known.partitions("out", [b"a", b"b"]) == [1, None]
    known.forget()
    assert known.partitions("out", [b"a"]) == [None]


@pytest.mark.parametrize(
    ("slept_s", "counts"), [(COUNTS_S - 1, True), (COUNTS_S, True), (2 * COUNTS_S, False)]
)
def test_what_is_known_counts_for_some_minutes(slept_s: float, counts: bool) -> None:
    """A broker forgets a client that writes nothing, also while the machine sleeps."""
    wall_s = [1e9]
    known = KnownKeys(lambda: wall_s[0])
    learn(known, [b"a"])
    wall_s[0] += slept_s
    assert not known.forget_old([])
    assert (known.partitions("out", [b"a"]) == [0]) is counts
    wall_s[0] += COUNTS_S
    known.forget_old([])
    wall_s[0] += COUNTS_S
    known.forget_old([])
    assert known.partitions("out", [b"a"]) == [None]


def test_past_so_many_keys_the_older_half_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waits for one acknowledgement more."""
    monkeypatch.setattr(known_keys, "KEYS_MAX", 2)
    known = KnownKeys()
    for keys in ((b"a", b"b"), (b"c", b"d")):
        assert not known.is_full
        learn(known, keys)
        assert known.is_full
        known.forget_half()
    assert known.partitions("out", [b"a", b"b", b"c", b"d"]) == [None, None, 0, 1]


def test_the_key_of_what_a_client_has_is_not_forgotten() -> None:
    """Its next output could go to another partition, and pass that one."""
    known = KnownKeys()
    learn(known, [b"a", b"b"])
    for _ in range(3):
        known.forget_half([output(b"b"), output(b"c")])
    assert known.partitions("out", [b"a", b"b", b"c"]) == [None, 1, None]
