"""Guards of what waits: retries, holds, pauses and letters by hand, until when, and for which records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.intake.flow import Amounts, FlowControl, FlowLimits, Load
from ehkafka.lanes.decision import AwaitHead, HoldHead, RetryHead, SkipHead
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.held import Held
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.waiting import Waiting
from ehkafka.records import Outcome, TopicPartition
from tests.kit.inbox_bench import InboxBench
from tests.kit.mutant import Mutant

if TYPE_CHECKING:
    from ehkafka.lanes.epoch import Epoch

P0 = TopicPartition("t", 0)


def _failed(decision: RetryHead | HoldHead | SkipHead | AwaitHead) -> tuple[InboxBench, Epoch]:
    """Let the first of two records of key `a` fail."""
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0 a1")
    bench.fail(bench.call(), decision)
    return bench, epoch


def _a_retry_comes_early() -> bool:
    bench, _ = _failed(RetryHead(5.0, "later"))
    bench.check(1.0)
    return bench.begin() is not None


def _what_is_held_is_skipped() -> bool:
    _, epoch = _failed(HoldHead("poison"))
    return epoch.tally.skipped_records != 0


def _a_failed_call_is_not_counted() -> bool:
    bench, _ = _failed(RetryHead(1.0, "later"))
    bench.check(1.0)
    return bench.inboxes.router.attempt_of(bench.call().entry).number != 2


def _the_next_record_inherits_attempts() -> bool:
    bench, epoch = _failed(RetryHead(5.0, "later"))
    bench.waiting.skip_key(b"a", epoch)
    return bool(bench.inboxes.router.attempts)


def _what_is_too_old_is_not_counted() -> bool:
    bench = InboxBench()
    bench.receive(bench.assign(), "a0 a1", skipped={0, 1})
    return bench.inboxes.tally.skipped_records != 2


def _a_key_continues_after_a_letter() -> bool:
    bench, epoch = _failed(AwaitHead("letter", lambda _: None, after="hold_key"))
    bench.answer(Outcome.DEAD_LETTERED)
    bench.receive(epoch, "a2")
    bench.work()
    return bench.started != ["a0"]


def _what_follows_a_letter_waits() -> bool:
    bench, epoch = _failed(AwaitHead("letter", lambda _: None, after="divert_key"))
    bench.waiting.divert = lambda _attempt, *_reason: AwaitHead("diverted", lambda _: None)
    for _ in range(2):
        bench.answer(Outcome.DEAD_LETTERED)
    bench.receive(epoch, "a2")
    return not bench.waiting.outbox


def _a_paused_key_runs_in_the_next_epoch() -> bool:
    bench = InboxBench()
    bench.waiting.paused_keys.add(b"a")
    bench.receive(bench.assign(), "a0")
    return bench.begin() is not None


def _a_resumed_key_runs_though_it_was_held() -> bool:
    """A record that failed must not run because its key was paused and resumed by hand."""
    bench, epoch = _failed(HoldHead("poison"))
    bench.waiting.pause_key(b"a", epoch)
    bench.waiting.resume_key(b"a", epoch)
    return bench.begin() is not None


def _a_pause_ends_with_a_retry() -> bool:
    bench, epoch = _failed(RetryHead(1.0, "later"))
    bench.waiting.pause_key(b"a", epoch)
    bench.check(1.0)
    return bench.begin() is not None


def _a_stopped_handler_runs() -> bool:
    bench = InboxBench()
    epoch = bench.assign()
    bench.receive(epoch, "a0")
    bench.inboxes.router.piles.stop()
    bench.receive(epoch, "b1")
    return bench.begin() is not None


def _sending(records: int) -> tuple[InboxBench, list[Epoch]]:
    """Have the first records of key `a`, of two partitions that share it, on their way."""
    bench = InboxBench("handler")
    epochs = [bench.assign(0), bench.assign(1)]
    for place, record in ((0, "a0"), (1, "a0"), (0, "a1")):
        bench.receive(epochs[place], record)
    bench.fail(bench.call(), HoldHead("poison"))
    bench.waiting.divert = lambda *_: AwaitHead("a letter", lambda _ticket: None, "continue")
    bench.waiting.send_by_hand(bench.held("a", epochs[0]), "by hand", records)
    return bench, epochs


def _a_letter_is_of_a_later_record() -> bool:
    bench, epochs = _sending(3)
    bench.inboxes.end([epochs[1]])
    bench.receive(epochs[0], "a2")
    sent = 0
    while bench.waiting.outbox:
        bench.answer(Outcome.DEAD_LETTERED)
        sent += 1
    return sent != 2


def _a_letter_is_of_the_next_record() -> bool:
    bench, _ = _sending(1)
    bench.answer(Outcome.DEAD_LETTERED)
    return bool(bench.waiting.outbox)


def _a_letter_that_a_retry_overtook_counts() -> bool:
    bench, epochs = _sending(2)
    late = bench.waiting.outbox.popleft()
    bench.waiting.retry_key(b"a", epochs[0])
    bench.fail(bench.call(), HoldHead("poison"))
    bench.inboxes.waiting.answer(late, Outcome.DEAD_LETTERED, 0.0)
    return bool(epochs[0].tally.dead_lettered_records)


def _flow_resumes_what_is_paused_by_hand() -> bool:
    flow = FlowControl(FlowLimits())
    flow.pause_by_hand([P0])
    return bool(flow.to_resume([Load(P0, 0, 0, 0, 0)], Amounts(0, 0), 0.0))


def _a_new_epoch_is_paused_by_hand() -> bool:
    flow = FlowControl(FlowLimits())
    flow.pause_by_hand([P0])
    flow.forget(P0)
    return bool(flow.by_hand)


MUTANTS = [
    Mutant("a retry comes early", Waiting.retry_due, "due_s <= now_s", "True", _a_retry_comes_early),
    Mutant(
        "what is on hold is skipped",
        Waiting.decide,
        "isinstance(decision, HoldHead)",
        "False",
        _what_is_held_is_skipped,
    ),
    Mutant(
        "a failed call is not counted",
        Waiting.decide,
        "attempts.failed += 1",
        "pass",
        _a_failed_call_is_not_counted,
    ),
    Mutant(
        "attempts of what has ended are kept",
        Waiting._end_first,
        "self.router.attempts.pop(id(entry[MESSAGE]), None)",
        "pass",
        _the_next_record_inherits_attempts,
    ),
    Mutant(
        "what is skipped for its age is not counted",
        Inboxes.receive,
        'self._count_passed(epoch, len(messages) - len(places), "skipped_records")',
        "pass",
        _what_is_too_old_is_not_counted,
    ),
    Mutant(
        "a key goes on though an earlier record was dead-lettered",
        Waiting._continue,
        'if held.after != "continue":',
        "if False:",
        _a_key_continues_after_a_letter,
    ),
    Mutant(
        "a new record does not follow its key's letter",
        Waiting.arrived,
        "self._continue(held)",
        "pass",
        _what_follows_a_letter_waits,
    ),
    Mutant(
        "a pause everywhere means only what is there",
        Ending.begin,
        "self._waiting.pause_key(key, epoch)",
        "pass",
        _a_paused_key_runs_in_the_next_epoch,
    ),
    Mutant(
        "a resume lets a failed record go",
        Waiting.resume_key,
        "held.decision is PAUSED and held.ticket is None",
        "held.ticket is None",
        _a_resumed_key_runs_though_it_was_held,
    ),
    Mutant(
        "a retry ends a pause",
        Waiting._continue,
        "elif held.is_paused:",
        "elif False:",
        _a_pause_ends_with_a_retry,
    ),
    Mutant(
        "a stop leaves what waits in its inboxes",
        Piles.stop,
        "taken = inbox.take_back()",
        "taken: list[Entry] = []",
        _a_stopped_handler_runs,
    ),
    Mutant(
        "flow control resumes what is paused by hand",
        FlowControl.to_resume,
        "and load.partition not in self.by_hand",
        "",
        _flow_resumes_what_is_paused_by_hand,
    ),
    Mutant(
        "a new epoch is paused by hand",
        FlowControl.forget,
        "self.by_hand.discard(partition)",
        "pass",
        _a_new_epoch_is_paused_by_hand,
    ),
    Mutant(
        "letters by hand are counted, not named",
        Held.is_by_hand,
        "any(self.q[place] is one for one in self.by_hand)",
        "bool(self.by_hand)",
        _a_letter_is_of_a_later_record,
    ),
    Mutant(
        "a letter by hand takes the next record along",
        Waiting._continue,
        "is_open and held.is_by_hand(0)",
        "is_open and held.by_hand",
        _a_letter_is_of_the_next_record,
    ),
    Mutant(
        "a letter that a retry overtook gives a result",
        Waiting.answer,
        "held.ticket is not ticket or held not in self.held",
        "False",
        _a_letter_that_a_retry_overtook_counts,
    ),
]
