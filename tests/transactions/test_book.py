"""The book of transactions: what is covered goes, what is aborted comes back, what ends is dropped."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
from ehkafka.outputs.book import NotSentError
from ehkafka.outputs.bundle import Bundle
from ehkafka.outputs.claim import Output
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.lanes.epoch import Epoch
from ehkafka.records import TopicPartition
from ehkafka.recovery.letters.letter import Letter
from ehkafka.transactions.book import TransactionBook
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.letters import LetterOutput
from tests.transactions.loop_bench import Bench, position


def values(held: list[Any]) -> str:
    """Return what outputs say, in order."""
    flat = [one.columns.values if isinstance(one, Bundle) else [one.value] for one in held]
    return b" ".join(chain.from_iterable(flat)).decode()


def take(bench: Bench, next_offset: int, ranges: Any = ()) -> str:
    """Take what such a commit covers."""
    where = bench.epoch
    return values(bench.book.take(Coverage({where.partition: position(where, next_offset, ranges)})))


def test_what_a_commit_covers_is_taken_in_order() -> None:
    """Also out of the middle of what came together."""
    bench = Bench()
    bench.add(0, 1, 2, 3, 4, 5)
    bench.add_claimed(6, b"6a", b"6b")
    bench.add(7)
    assert take(bench, 2, [(3, 4), (6, 7)]) == "0 1 3 6a 6b"
    bench.book.committed()
    assert take(bench, 8) == "2 4 5 7"
    bench.book.committed()
    assert bench.book.count() == 0


def test_what_is_aborted_stands_before_what_is_held() -> None:
    """Of each key it has what was made first."""
    bench = Bench()
    bench.add(0, 1, 2, 3)
    assert take(bench, 1, [(2, 3)]) == "0 2"
    bench.add(4)
    bench.book.aborted()
    assert take(bench, 5) == "0 2 1 3 4"
    assert bench.book.count() == 5


@given(st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=12))
def test_each_output_is_committed_once_and_each_key_keeps_its_order(steps: list[tuple[int, bool]]) -> None:
    """Whatever is covered, and however often it is aborted."""
    bench, done, reached = Bench(), [], 0
    for offset in range(30):
        bench.add(offset, key=b"%d" % (offset % 3))
    for next_offset, is_committed in [*steps, (30, True)]:
        reached = max(reached, next_offset)
        # All but the key that the lowest unfinished record has are ahead of it.
        ahead = [offset for offset in range(reached, min(reached + 7, 30)) if (offset - reached) % 3]
        taken = take(bench, reached, [(offset, offset + 1) for offset in ahead])
        if is_committed:
            bench.book.committed()
            done += [int(value) for value in taken.split()]
        else:
            bench.book.aborted()
    assert sorted(done) == list(range(30))
    for key in range(3):
        of_key = [offset for offset in done if offset % 3 == key]
        assert of_key == sorted(of_key)


def test_mutant_what_is_aborted_goes_behind_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a later output of a key passes an earlier one."""

    def behind(self: Any, _apart: Any = None) -> None:
        self._held += self._taken
        self._taken = []

    monkeypatch.setattr(TransactionBook, "aborted", behind)
    bench = Bench()
    bench.add(0, 1)
    assert take(bench, 1) == "0"
    bench.book.aborted()
    assert take(bench, 2) == "1 0"


def test_what_a_failed_call_had_sent_goes_nowhere() -> None:
    """And is counted no more, once it was looked at."""
    bench = Bench()
    failed = bench.add_claimed(0, b"0a", b"0b")
    failed.has_failed = True
    bench.add_claimed(0, b"0c")
    assert take(bench, 1) == "0c"
    bench.book.committed()
    assert bench.book.count() == 0


def test_a_record_that_a_batch_gives_back_has_sent_nothing() -> None:
    """The others of its batch have."""
    bench = Bench()
    claim = bench.add_claimed(0, b"0")
    claim.failed_homes = frozenset({1})
    given_back = bench.add_claimed(1, b"1")
    given_back.failed_homes = frozenset({None})  # type: ignore[arg-type]
    assert take(bench, 2) == "0"


def test_an_output_of_a_whole_batch_is_refused() -> None:
    """Its records need not be committed together."""
    bench = Bench()
    claim = bench.add_claimed(0)
    claim.batch = object()
    with pytest.raises(RuntimeError, match="whole batch cannot be sent exactly once"):
        bench.book.add(claim, [bench_output(claim)])


def bench_output(claim: Any) -> Any:
    """Return an output of all records of a call."""
    return Output(claim, "out", b"x", b"k", None, -1, 1)


def test_what_ends_is_dropped_after_its_last_commit() -> None:
    """An epoch that has ended is still taken until then; another one's stays."""
    bench = Bench()
    other = Epoch(TopicPartition("in", 1), 1, {})
    bench.add(0, 1)
    bench.add(0, epoch=other)
    bench.epoch.ended = True
    assert take(bench, 1) == "0"
    bench.book.committed()
    bench.book.end([bench.epoch])
    assert bench.book.count() == 1


def test_what_ends_while_it_is_under_way_does_not_come_back() -> None:
    """Where its transaction is aborted after all."""
    bench = Bench()
    bench.add(0, 1)
    assert take(bench, 2) == "0 1"
    bench.epoch.ended = True
    bench.book.end([bench.epoch])
    bench.book.aborted()
    assert take(bench, 2) == ""
    assert bench.book.count() == 0


@pytest.mark.parametrize("add", ["add", "add_claimed", "add_single"])
def test_nothing_is_taken_for_an_epoch_that_has_ended(add: str) -> None:
    """Nor once the book is closed."""
    given = {"add": (0,), "add_claimed": (0, b"x"), "add_single": (0, b"x")}[add]
    ended, closed = Bench(), Bench()
    ended.epoch.ended = True
    closed.book.close()
    for bench, why in ((ended, "taken away"), (closed, "stops")):
        with pytest.raises(NotSentError, match=why):
            getattr(bench, add)(*given)


def test_workers_never_wait_and_the_intake_does() -> None:
    """The one that would wait could be the one whose record keeps all others from being committed."""
    book = TransactionBook(outputs_max=2)
    bench = Bench()
    bench.book = book
    bench.add(0, 1, 2)
    assert (book.has_room(), book.is_over_bound()) == (True, True)
    assert take(bench, 2) == "0 1"
    assert book.is_over_bound()
    book.committed()
    assert not book.is_over_bound()


def test_a_letter_is_an_output_of_its_record() -> None:
    """It goes when its record is covered, and ends with its epoch."""
    bench = Bench()
    letter = LetterOutput("dead", Letter(bench.epoch.partition, 3, b"k", b"bad", []), bench.epoch)
    bench.book.add_letter(letter)
    assert take(bench, 3) == ""
    bench.book.committed()
    assert take(bench, 4) == "bad"
    bench.book.aborted()
    bench.book.end([bench.epoch])
    assert bench.book.count() == 0
