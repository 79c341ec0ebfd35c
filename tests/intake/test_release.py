"""What a release does in which order: the last positions are fixed behind a transaction under way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ehkafka.intake.membership import Membership


class Committing:
    """Notes what a release asks of the committer."""

    def __init__(self, *, settles: bool) -> None:
        self.calls: list[tuple[str, object]] = []
        self._settles = settles

    def settle(self, timeout_s: float | None) -> bool:
        """Say whether nothing is under way any more."""
        self.calls.append(("settle", timeout_s))
        return self._settles

    def commit_now(self, _consumer: object, _positions: object, timeout_s: float | None) -> None:
        """Note it."""
        self.calls.append(("commit", timeout_s))


def released(*, settles: bool, commit_s: float | None) -> list[tuple[str, object]]:
    """Release no partition at all; return what the committer was asked for."""
    committing = Committing(settles=settles)
    context: Any = SimpleNamespace(
        clock=lambda: 0.0,
        committer=committing,
        delivery=None,
        ledger=SimpleNamespace(missing=lambda _positions: {}),
        brokers=SimpleNamespace(contact=SimpleNamespace(note_gone=lambda _count, **_what: None)),
        owned={},
        hook_threads=SimpleNamespace(wait=lambda *_: None),
        exit_now=lambda: False,
    )
    membership = Membership(context, {}, lambda: None)
    membership.cut = lambda *_: True  # type: ignore[method-assign]
    membership._wait_until_drained = lambda *_: committing.calls.append(("drain", None))  # type: ignore[method-assign]
    membership._end = lambda partitions: committing.calls.append(("fix", None)) or ({}, {})  # type: ignore[method-assign,func-returns-value]
    consumer: Any = None
    membership.release(consumer, [], reason="revoked", drain_s=0.0, commit_s=commit_s)
    return committing.calls


@pytest.mark.parametrize("commit_s", [None, 3.0])
def test_last_positions_are_fixed_behind_what_is_under_way(commit_s: float | None) -> None:
    """And committed then."""
    asked = [("drain", None), ("settle", commit_s), ("fix", None), ("commit", commit_s)]
    assert released(settles=True, commit_s=commit_s) == asked


@pytest.mark.parametrize("commit_s", [None, 3.0])
def test_nothing_is_committed_behind_what_may_still_be(commit_s: float | None) -> None:
    """The next owner handles again what the last positions would have said."""
    assert ("commit", commit_s) not in released(settles=False, commit_s=commit_s)


def test_a_release_that_commits_nothing_waits_for_nothing() -> None:
    """As at a second signal."""
    assert released(settles=True, commit_s=0.0) == [("drain", None), ("fix", None)]
