"""Mutants of what sends exactly once: what is covered, taken, given back, fenced, and found out.

What the poll thread does of it stands in the simulated member; a mutant there shows that the seeds notice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ehkafka.progress.commits import as_offset
from ehkafka.progress.ledger import Position
from ehkafka.records import TopicPartition
from ehkafka.run.transactions import Transactions
from ehkafka.transactions.book import TransactionBook
from ehkafka.transactions.committing import TransactionalCommits
from ehkafka.transactions.coverage import Cover, Coverage
from ehkafka.transactions.loop import TransactionLoop
from ehkafka.transactions.refusals import Refusals
from ehkafka.transactions.saving import TransactionSaver
from tests.kit.mutant import Mutant
from tests.kit.simulated.transactional_member import MemberTransactions, TransactionalHandover
from tests.simulation.seeds import a_transaction_seed_is_red, a_transaction_seed_with_short_texts_is_red

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Together(Mutant):
    """Guards of which each alone would do."""

    others: tuple[Mutant, ...] = ()

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Replace all the functions."""
        super().apply(patch)
        for other in self.others:
            other.apply(patch)


def _mutant(name: str, function: object, guard: str, without: str, first: int = 0) -> Mutant:
    is_red = partial(a_transaction_seed_is_red, first)
    return Mutant(name, function, guard, without, is_red)  # type: ignore[arg-type]


P0 = TopicPartition("t", 0)
_P1 = TopicPartition("t", 1)
_RETURNS_EARLY = _mutant(
    "a revoke returns before its transaction has ended",
    MemberTransactions.begin_awaited,
    "self._awaited[request] = on_answer",
    "self._answer(on_answer, positions, KafkaError(KafkaError._TIMED_OUT))",
)
_KEEPS_OUTPUTS = _mutant(
    "outputs of ended epochs are kept",
    TransactionalHandover._end_revoke,
    "self._member.transactions.end(list(self.leaving.values()))",
    "pass",
)
_KEEPS_LOST = _mutant(
    "transactions of lost partitions go on",
    MemberTransactions.lost,
    "self.commits.end_unwanted(0.0)",
    "pass",
)
_TAKEN_LATE = (
    TransactionLoop._send_and_commit,
    "(offsets, request.metadata, CALL_S)",
    "(offsets, client.metadata_now(), CALL_S)",
)


def a_part_counts_as_the_whole() -> bool:
    """Ask for a commit of which the group has one partition alone, by the commit before."""
    asked: Any = SimpleNamespace(
        _app=SimpleNamespace(settings=SimpleNamespace(group="g")),
        _epochs={P0: 1, _P1: 1},
        _open_consumer=lambda _group: SimpleNamespace(
            committed=lambda _asked, timeout: [as_offset(P0, Position(1, 5)), as_offset(_P1, Position(1, 5))],
            close=lambda: None,
        ),
    )
    return Transactions._was_committed(asked, {P0: Position(1, 5), _P1: Position(1, 6)})


MUTANTS = [
    Mutant(
        "covered by known ranges instead of by the text",
        Coverage.__init__,
        "cover_of(position)",
        "Cover(position.next_offset, position.finished)",
        a_transaction_seed_with_short_texts_is_red,
    ),
    _mutant(
        "what lies between the ranges of a commit is covered",
        Cover.has,
        "place >= 0 and offset < self._ends[place]",
        "place >= 0",
    ),
    _mutant(
        "only what lies below a commit is covered",
        Cover.has,
        "place >= 0 and offset < self._ends[place]",
        "False",
    ),
    _mutant(
        "a record on the watermark is covered",
        Cover.has,
        "offset < self.next_offset",
        "offset <= self.next_offset",
    ),
    _mutant(
        "outputs of failed attempts are sent",
        TransactionBook.take,
        "elif one.is_dropped or is_void(one):",
        "elif one.is_dropped:",
    ),
    _mutant(
        "outputs that are given up are sent",
        TransactionBook.take,
        "elif one.is_dropped or is_void(one):",
        "elif is_void(one):",
        11,
    ),
    _mutant(
        "outputs are taken as they were before positions were fixed",
        TransactionBook.take,
        "self._sort_in()\n        for one in self._held:",
        "held, self._held = self._held, []\n        self._sort_in()\n        rest = self._held\n"
        "        for one in held:",
    ),
    _mutant(
        "all that is held is taken",
        TransactionBook.take,
        "(taken if _is_covered(one, coverage) else rest).append(one)",
        "taken.append(one)",
    ),
    _mutant(
        "aborted outputs are put back behind newer ones",
        TransactionBook.aborted,
        "[*self._without(back, self._ended), *self._held]",
        "[*self._held, *self._without(back, self._ended)]",
    ),
    _mutant(
        "aborted outputs are dropped",
        TransactionBook.aborted,
        "[*self._without(back, self._ended), *self._held]",
        "self._held",
    ),
    _mutant(
        "committed outputs are put back",
        TransactionBook.committed,
        "self._release(self._taken)",
        "self._held = [*self._taken, *self._held]",
    ),
    _mutant(
        "the last of a call's outputs goes first",
        TransactionBook._sort_in_output,
        "self._held.append(output)",
        "self._held.insert(0, output)",
    ),
    _mutant(
        "who is no member commits",
        TransactionalCommits._request,
        "if not generation_of(metadata).is_member:",
        "if False:",
    ),
    Together(
        "metadata are taken late, and a revoke does not wait for its transaction",
        *_TAKEN_LATE,
        a_transaction_seed_is_red,
        (_RETURNS_EARLY, _KEEPS_OUTPUTS),
    ),
    Together(
        "metadata are taken late, and a transaction of lost partitions goes on",
        *_TAKEN_LATE,
        a_transaction_seed_is_red,
        (_KEEPS_LOST,),
    ),
    _RETURNS_EARLY,
    _mutant(
        "outputs are dropped before the last commit of their epoch",
        TransactionalHandover._go_on_revoking,
        "super()._go_on_revoking()",
        "self._member.transactions.end(list(self.leaving.values()))\n    super()._go_on_revoking()",
    ),
    _mutant(
        "offsets of a transaction that is not over are read",
        TransactionalHandover._take_assignment,
        "if any(map(self._world.transactions.is_unstable, new)):",
        "if False:",
    ),
    _mutant(
        "a commit that timed out counts as aborted",
        TransactionLoop._insist,
        "if error.txn_requires_abort() or not error.retriable():",
        "if request.stage is Stage.COMMITTING or error.txn_requires_abort() or not error.retriable():",
    ),
    _mutant(
        "a commit whose producer is lost counts as aborted",
        TransactionLoop._run,
        "if not (was_committing and self._resolve(request)):",
        "if True:",
    ),
    _mutant(
        "a commit whose producer is lost counts as committed",
        TransactionLoop._resolve,
        "return self._was_committed(request.changed)",
        "return True",
    ),
    _mutant(
        "a commit is found where another's stands",
        Transactions._was_committed,
        "bool(ours) and all(ours)",
        "bool(ours)",
    ),
    # Of a tick and a last commit behind it: seldom in seeds.
    Mutant(
        "a commit is found by what an earlier one had of it",
        Transactions._was_committed,
        "bool(ours) and all(ours)",
        "any(ours)",
        a_part_counts_as_the_whole,
    ),
    _mutant(
        "a refused output waits for no decision",
        Refusals.lowest,
        "if one.due_s is None or one.due_s > now_s",
        "if one.due_s is not None and one.due_s > now_s",
        13,
    ),
    Together(
        "a commit says less than the one before",
        TransactionSaver.position,
        "return position if _says(position, kept) else committed",
        "return position",
        a_transaction_seed_with_short_texts_is_red,
        (
            _mutant(
                "the lowest ranges go first",
                TransactionSaver._text,
                "if not (kept and written.dropped_offsets):",
                "if True:",
            ),
        ),
    ),
    Mutant(
        "what an aborted commit said stays known above a refused output",
        TransactionSaver._bound_by,
        "tuple((start, min(end, lowest)) for start, end in known.finished if start < lowest)",
        "known.finished",
        a_transaction_seed_with_short_texts_is_red,
    ),
    Mutant(
        "what an aborted commit said is said again",
        TransactionSaver._bound_by,
        "self._last.pop(place, None)",
        "pass",
        partial(a_transaction_seed_with_short_texts_is_red, 24),
    ),
    Mutant(
        "a text that was refused is offered again",
        TransactionSaver.refused,
        "self._last.clear()",
        "pass",
        partial(a_transaction_seed_with_short_texts_is_red, 13),
    ),
    _mutant(
        "where batches end is forgotten before that is committed",
        TransactionSaver._trims_to,
        "min(next_offset, committed.next_offset if committed else 0)",
        "next_offset",
        39,
    ),
]
