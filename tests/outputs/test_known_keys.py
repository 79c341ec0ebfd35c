"""Of which keys a client may be given more: those whose first output by it is acknowledged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.outputs import known_keys
from ehkafka.outputs.known_keys import COUNTS_S, KnownKeys

if TYPE_CHECKING:
    import pytest


def test_the_second_output_of_a_key_waits_for_the_first_ones_acknowledgement() -> None:
    """A broker takes any number as a client's first one: behind a refused first output it would pass."""
    known = KnownKeys()
    assert known.may_go("out", b"a")
    assert not known.may_go("out", b"a")
    assert known.may_go("out", b"b")
    assert known.may_go("other", b"a")
    known.acknowledged("out", b"a")
    assert known.may_go("out", b"a")
    assert not known.may_go("out", b"b")
    assert not known.are_known("out", [b"a", b"b"])
    known.all_acknowledged()
    assert known.are_known("out", [b"a", b"b", None])
    known.forget()
    assert not known.are_known("out", [b"a"])


def test_outputs_without_a_key_wait_for_none() -> None:
    """Their order is not promised."""
    known = KnownKeys()
    assert all(known.may_go("out", None) for _ in range(3))
    assert known.are_known("out", [None, None])


def test_what_is_known_counts_for_some_minutes_of_the_broker_s_time() -> None:
    """It forgets a client that writes nothing, and a clock that is set back is believed as little."""
    wall_s = [1e9]
    known = KnownKeys(lambda: wall_s[0])
    assert not known.are_old
    wall_s[0] += COUNTS_S
    assert known.are_old
    known.forget()
    assert not known.are_old
    wall_s[0] -= COUNTS_S
    assert known.are_old


def test_so_many_keys_are_known_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then all are forgotten: each waits for one acknowledgement more."""
    monkeypatch.setattr(known_keys, "KEYS_MAX", 2)
    known = KnownKeys()
    for key in (b"a", b"b", b"c"):
        known.may_go("out", key)
        known.acknowledged("out", key)
    assert [known.are_known("out", [key]) for key in (b"a", b"b", b"c")] == [False, False, True]
