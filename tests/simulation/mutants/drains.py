"""Guards of drains and ends: what still starts, what is returned and what is waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.lanes.decision import AwaitHead, RetryHead
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.waiting import Waiting
from ehkafka.records import Outcome
from tests.kit.inbox_bench import InboxBench
from tests.kit.mutant import Mutant
from tests.simulation.seeds import a_graceful_seed_is_red

if TYPE_CHECKING:
    from tests.kit.inbox_bench import Call


def _what_does_not_fit_starts() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.call("b")
    bench.inboxes.drain([epoch], lambda _work: False)
    bench.work()
    return bench.started != ["b1"]


def _a_record_above_a_failed_one_starts() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    bench.fail(bench.call("a"), RetryHead(60.0, "later"))
    bench.call("c")
    bench.drain(epoch)
    bench.work()
    return bench.started != ["a0", "c2"]


def _a_record_above_the_limit_starts() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.drain(epoch, below_started=False)
    return bench.begin() is not None


def _a_hole_is_left_below_a_started_record() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    started = bench.call("c")
    bench.drain(epoch)
    bench.finish(started)
    bench.work()
    return epoch.watermark() != 3


def _a_drain_goes_up_to_what_is_no_record() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 c2")
    bench.call("a")
    epoch.received.skip_to(4, 0.0)
    bench.drain(epoch)
    return epoch.tally.returned_records != 2


def _what_is_received_in_a_drain_starts() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0")
    started = bench.call("a")
    bench.drain(epoch)
    bench.receive(epoch, "b1")
    bench.finish(started)
    bench.work()
    return bench.started != ["a0"]


def _what_waits_alone_starts() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1")
    bench.drain(epoch)
    bench.work()
    return bench.started != []


def _what_runs_is_not_waited_for() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0")
    call = bench.call()
    bench.drain(epoch)
    was_drained = bench.inboxes.is_drained([epoch])
    bench.finish(call)
    return was_drained or not bench.inboxes.is_drained([epoch])


def _diverting() -> tuple[InboxBench, Epoch, Call]:
    """Have key `a` follow a dead letter, of which one more is on its way, and its partition drain."""
    bench = InboxBench()
    bench.waiting.divert = lambda _attempt, *_reason: AwaitHead("letter", lambda _: None)
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    call = bench.call()
    bench.fail(call, RetryHead(60.0, "later"))
    bench.waiting.divert_key(bench.held("a", epoch), "no room")
    bench.drain(epoch)
    return bench, epoch, call


def _a_letter_is_begun_above_the_limit() -> bool:
    bench, _, _ = _diverting()
    bench.answer(Outcome.DEAD_LETTERED)
    return bool(bench.waiting.outbox)


def _a_letter_is_not_waited_for() -> bool:
    bench, epoch, _ = _diverting()
    was_drained = bench.inboxes.is_drained([epoch])
    bench.answer(Outcome.DEAD_LETTERED)
    return was_drained or not bench.inboxes.is_drained([epoch])


MUTANTS = [
    Mutant(
        "a drain finishes nothing below the highest started",
        Ending.drain,
        "epoch.highest_started(waiting) if fits is not None else -1",
        "-1",
        _a_hole_is_left_below_a_started_record,
    ),
    Mutant(
        "a drain begins what does not fit",
        Ending.drain,
        "fits(self._work(epochs)) or self.drain(epochs, None)",
        "True",
        _what_does_not_fit_starts,
    ),
    Mutant(
        "a drain goes on above a head that waits",
        Ending.drain,
        "-1, *offsets]",
        "-1]",
        _a_record_above_a_failed_one_starts,
    ),
    Mutant(
        "a diverted key goes on above the drain's limit",
        Waiting._continue,
        "first is not None and first[EPOCH].may_start(first)",
        "first is not None",
        _a_letter_is_begun_above_the_limit,
    ),
    Mutant(
        "a drain does not wait for what runs",
        Ending.undrained,
        "if epoch.tally.backlog_records",
        "if False",
        _what_runs_is_not_waited_for,
    ),
    Mutant(
        "a drain does not wait for a waiting key's letter",
        Ending.undrained,
        "held.ticket is not None and held.q",
        "False",
        _a_letter_is_not_waited_for,
    ),
    Mutant(
        "a drain is over at once",
        Ending.is_drained,
        "not self.undrained(epochs)",
        "True",
        a_graceful_seed_is_red,
    ),
    Mutant(
        "what is received in a drain starts",
        Epoch.may_start,
        " or entry[MESSAGE].offset() <= self.drain_limit",
        " or True",
        _what_is_received_in_a_drain_starts,
    ),
    Mutant(
        "started records are not known",
        Epoch.highest_started,
        "if id(entry[MESSAGE]) not in unstarted:",
        "if True:",
        _a_drain_goes_up_to_what_is_no_record,
    ),
    Mutant(
        "what holds no record counts as started",
        Epoch.highest_started,
        "self.order[0][MESSAGE].offset() if self.order else self.received.next_offset",
        "self.received.next_offset",
        _what_waits_alone_starts,
    ),
]
