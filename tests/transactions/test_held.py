"""Outputs between transactions: what is covered goes, what is aborted comes back, what ends is dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from ehkafka.lanes.epoch import Epoch
from ehkafka.outputs.output import EntrySource, OutputRefusedError
from ehkafka.records import TopicPartition
from ehkafka.transactions.coverage import Coverage
from ehkafka.transactions.held import HeldOutputs
from tests.kit.simulated.message import SimulatedMessage
from tests.kit.waiting import wait_until
from tests.transactions.loop_bench import Bench

if TYPE_CHECKING:
    import pytest


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
        taken = bench.take(reached, [(offset, offset + 1) for offset in ahead])
        if is_committed:
            bench.held.committed()
            done += [int(value) for value in taken.split()]
        else:
            bench.held.take_back({})
    assert sorted(done) == list(range(30))
    for key in range(3):
        of_key = [offset for offset in done if offset % 3 == key]
        assert of_key == sorted(of_key)


def test_mutant_what_is_aborted_goes_behind_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a later output of a key passes an earlier one."""

    def behind(self: Any, _refused: Any) -> None:
        outputs = self._outputs
        outputs.parked, outputs.sent = [*outputs.parked, *outputs.sent], []

    monkeypatch.setattr(HeldOutputs, "take_back", behind)
    bench = Bench()
    bench.add(0, 1)
    assert bench.take(1) == "0"
    bench.held.take_back({})
    assert bench.take(2) == "1 0"


def test_what_ends_is_dropped_after_its_last_commit() -> None:
    """An epoch that has ended is still taken until then; another one's stays."""
    bench = Bench()
    bench.add(0, 1)
    bench.add(0, epoch=Epoch(TopicPartition("in", 1), 1, {}))
    bench.epoch.ended = True
    assert bench.take(1) == "0"
    bench.held.take_back({})
    assert bench.take(1) == "0", "an aborted one does not end it"
    bench.held.committed()
    bench.held.end([bench.epoch])
    assert bench.outputs.count() == 1


def test_what_ends_while_it_is_under_way_does_not_come_back() -> None:
    """Where its transaction is aborted after all."""
    bench = Bench()
    bench.add(0, 1)
    assert bench.take(2) == "0 1"
    bench.epoch.ended = True
    bench.held.end([bench.epoch])
    bench.held.take_back({})
    assert bench.take(2) == ""
    assert bench.outputs.count() == 0


def test_what_is_put_in_the_moment_of_an_epochs_end_is_not_counted_for_long() -> None:
    """Its worker has looked before, and adds it after."""
    bench = Bench()
    bench.add(0)
    late = list(bench.outputs.added)
    bench.epoch.ended = True
    bench.held.end([bench.epoch])
    assert bench.outputs.count() == 0
    bench.outputs.added.extend(late)
    bench.add(1, epoch=Epoch(TopicPartition("in", 1), 1, {}))
    bench.loop.start()
    wait_until(lambda: bench.outputs.count() == 1, timeout_s=5.0)
    bench.loop.stop(1.0)
    assert bench.outputs.parked[3] == b"1"


def test_an_output_that_is_decided_on_while_outputs_are_taken_keeps_its_record_from_a_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its dead letter, put at that moment, is not among what was taken: the record went without either."""
    bench = Bench()
    bench.add(0)
    assert bench.take(1) == "0"
    bench.held.take_back({0: OutputRefusedError("no")})
    [(_, _, answer)] = bench.judged
    divide = Coverage.divide

    def divide_meanwhile(coverage: Coverage, flat: list[Any]) -> Any:
        bench.put(0, b"letter")
        answer(None)
        return divide(coverage, flat)

    with monkeypatch.context() as patch:
        patch.setattr(Coverage, "divide", divide_meanwhile)
        bench.take(1)
    assert bench.held.has_undecided
    bench.held.take_back({})
    assert bench.take(1) == "letter"
    assert not bench.held.has_undecided
    bench.held.committed()
    assert bench.outputs.count() == 0


def test_workers_never_wait_and_the_intake_does() -> None:
    """The one that would wait could be the one whose record keeps all others from being committed."""
    bench = Bench()
    for offset in range(101):
        bench.add(offset)
    assert (bench.outputs.has_room(), bench.outputs.is_over_bound()) == (True, True)
    assert len(bench.take(2).split()) == 2
    assert bench.outputs.is_over_bound()
    bench.held.committed()
    assert not bench.outputs.is_over_bound()


def test_a_source_hears_what_becomes_of_its_output() -> None:
    """As of a dead letter, which is an output of its record."""
    heard: list[str] = []

    class Noted(EntrySource):
        def acknowledged(self, _written: Any = None) -> None:
            heard.append("acknowledged")

        def gone(self) -> None:
            heard.append("gone")

    bench = Bench()
    source = Noted((SimulatedMessage("in", 0, 3, b"k"), b"k", 1, bench.epoch))
    for _ in range(2):
        bench.outputs.put(source, (bench, source, "dead", b"bad", b"k", None, -1), 4)
        assert bench.take(3) == ""
        bench.held.committed()
        assert bench.take(4) == "bad"
        (bench.held.take_back if heard else lambda _: bench.held.committed())({})
    bench.epoch.ended = True
    bench.held.end([bench.epoch])
    assert heard == ["acknowledged", "gone"]
