"""What failed attempts had sent is counted for their record alone, and let go of with it."""

from __future__ import annotations

from typing import Any

from ehkafka.outputs.claim import Claim
from ehkafka.outputs.in_vain import RECORDS_MIN, InVain


class Epoch:
    """An epoch."""

    ended = False


class Message:
    """A record of an offset."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        """Return it."""
        return self._offset


def claim_of(epoch: Any, *offsets: int, posted: int = 1, acknowledged: int = 0) -> Claim:
    """Return a call that has sent something."""
    nobody: Any = None
    claim = Claim(nobody, tuple((epoch, offset) for offset in offsets), None, 1)
    claim.posted, claim.acknowledged = posted, acknowledged
    return claim


def test_attempts_add_up_until_the_record_is_decided_on() -> None:
    """Each record for itself; what is acknowledged later counts, too."""
    home: Any = Epoch()
    in_vain = InVain({}, report=lambda _claim: None)
    first = claim_of(home, 7, posted=2)
    in_vain.note(first)
    in_vain.note(claim_of(home, 7, posted=3, acknowledged=1))
    in_vain.note(claim_of(home, 8))
    first.acknowledged = 2
    assert in_vain.counts(home, Message(7)) == (5, 3)
    in_vain.decided(home, Message(7), again=True)
    assert in_vain.counts(home, Message(7)) == (5, 3)
    in_vain.decided(home, Message(7), again=False)
    assert in_vain.counts(home, Message(7)) == (0, 0)
    in_vain.end(claim_of(home, 8))
    assert len(in_vain) == 0


def test_a_deferred_call_that_failed_counts_once_and_is_reported() -> None:
    """Though its call has returned; the end of its call does not take it for handled."""
    home: Any = Epoch()
    message, reported = Message(7), list[Claim]()
    claim = claim_of(home, 7, posted=2)
    in_vain = InVain({id(message): claim}, report=reported.append)
    assert in_vain.counts(home, message) == (2, 0)
    in_vain.decided(home, message, again=True)
    in_vain.end(claim)
    assert in_vain.counts(home, message) == (2, 0)
    assert reported == [claim]


def test_a_batch_of_several_is_nobodys() -> None:
    """It is passed again in halves; whose the outputs were is not known."""
    home: Any = Epoch()
    in_vain = InVain({}, report=lambda _claim: None)
    in_vain.note(claim_of(home, 1, 2))
    assert len(in_vain) == 0


def test_records_of_old_epochs_do_not_stay() -> None:
    """They were waiting for their next attempt when their partition went."""
    old, new = Epoch(), Epoch()
    in_vain = InVain({}, report=lambda _claim: None)
    for offset in range(RECORDS_MIN):
        in_vain.note(claim_of(old, offset))
    old.ended = True
    in_vain.note(claim_of(new, 1))
    assert len(in_vain) == 1
