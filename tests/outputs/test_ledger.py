"""Whose offsets wait: exactly those with more claims than releases, and none of an epoch that has ended."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.outputs.ledger import OffsetLedger

STEPS = st.lists(st.tuples(st.sampled_from("cccrre"), st.sampled_from("pq"), st.integers(0, 5)), max_size=80)


@given(STEPS)
def test_what_waits_is_what_was_claimed_and_not_released(steps: list[tuple[str, str, int]]) -> None:
    """Against a plain count of all claims."""
    ledger, model = OffsetLedger(), Counter[tuple[str, int]]()
    for step, epoch, offset in steps:
        if step == "c":
            ledger.claim([(epoch, offset)])
            model[epoch, offset] += 1
        elif step == "r":
            ledger.release([(epoch, offset)])
            if model[epoch, offset]:
                model[epoch, offset] -= 1
        else:
            ledger.end(epoch)
            model = Counter({place: count for place, count in model.items() if place[0] != epoch})
        for one in "pq":
            assert ledger.waiting(one) == {place[1] for place in +model if place[0] == one}
            assert ledger.has(one) == bool(ledger.waiting(one))
        assert len(ledger) == len(+model)


def test_nothing_stays_of_what_does_not_wait() -> None:
    """State follows what is on its way, not what was ever sent."""
    ledger = OffsetLedger()
    for offset in range(1000):
        ledger.claim([("p", offset)])
        ledger.release([("p", offset)])
    assert ledger._claims == {}
