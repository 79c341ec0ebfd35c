"""Guards of the inboxes, each taken out once: random histories must notice."""

from __future__ import annotations

from functools import partial

from ehkafka.lanes import resizing
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import Inbox
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.outliving import Outliving
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.routing import Router
from ehkafka.lanes.waiting import Waiting
from tests.kit.mutant import Mutant, fails
from tests.lanes import test_outliving, test_seen
from tests.lanes.inbox_scenarios import (
    a_batch_counts_what_it_skipped_otherwise,
    a_batch_loses_records_of_another_partition,
    a_key_overlaps_where_the_next_record_is_shown,
    a_record_goes_where_the_consumer_has_left,
    mutant,
    what_waits_stays_where_a_consumer_is_to_go,
)
from tests.lanes.inbox_unread_mutants import UNREAD_MUTANTS

MUTANTS = [
    mutant(
        "finished: what runs is read before what waits",
        Inbox.count_finished,
        "waiting = len(self.q)  # first what waits, second what runs\n    head = self.head\n",
        "head = self.head\n    waiting = len(self.q)\n",
    ),
    mutant(
        "take back: the queue is not replaced",
        Inbox.empty_queue,
        "q, self.q = self.q, self.make_queue()",
        "q = self.q",
    ),
    mutant(
        "take back: taken records still count as sent", Inbox.take_back, "self.sent -= len(taken)", "pass"
    ),
    mutant(
        "live: the running record does not keep its key",
        Inbox.is_live,
        "ahead > 0 or (ahead > -self.slack and self.head is not None)",
        "ahead > 0",
    ),
    mutant("live: only the last record of a batch keeps its key", Inbox.is_live, "-self.slack", "-1"),
    mutant(
        "place: an unopened partition's records start", Router.place, "self.piles.unopened.get(epoch) or", ""
    ),
    mutant("place: a stopped handler's records start", Router.place, " or self.piles.stopped", ""),
    mutant(
        "route: a drained record starts",
        Router._only_home,
        " and epoch.drain_limit is None",
        "",
        is_narrow=True,
    ),
    mutant(
        "route: records start where a pile is", Router._only_home, " or self.piles.all()", "", is_narrow=True
    ),
    mutant("place: a drained record starts", Router.place, "not epoch.may_start(entry)", "False"),
    mutant(
        "place: a key's waiting records stay behind in another inbox",
        Router.place,
        "pulled = self.pull(owner[0], entry[KEY], epoch)",
        "pulled: list[Entry] = []",
    ),
    mutant(
        "place: what runs of a piled key is forgotten",
        Router.place,
        "if running is not None:",
        "if False:",
        is_shared=True,
        is_batch=False,
        keys=3,
        partitions=range(4),
    ),
    mutant("pull: records of the key stay", Router._pull, "mine if self.name_of(entry) in names else", ""),
    mutant("put all: keys are not owned", Router.put_all, "zip(repeat(inbox), numbers)", "()"),
    mutant(
        "place all: what still runs of the key is passed",
        Router.place_all,
        "self.choose() if owner is None else owner[0]",
        "self.choose()",
    ),
    mutant(
        "unload: the running key's records move",
        Router.unload,
        "{self.name_of(entry) for entry in inbox.running() if self.keeps_key(entry)}",
        "set()",
    ),
    mutant(
        "unload: records of one key go to two inboxes",
        Router.unload,
        "target = to[name] = targets",
        "target = targets",
    ),
    mutant("stop: what runs is forgotten", Piles.stop, "pile.behind[router.name_of(entry)] = ", "_ = "),
    mutant(
        "spread: a key does not go behind what runs of it", Piles._spread, "owners[key] = running", "pass"
    ),
    mutant("note: a result of an ended epoch counts", Router.note_entries, "if epoch.ended:", "if False:"),
    mutant(
        "note: attempts are kept", Router.note_entries, "self.attempts.pop(id(entry[MESSAGE]), None)", "pass"
    ),
    mutant(
        "give back: a returned record stays in the backlog",
        Router.give_back,
        "tally.leave_backlog(1, entry[SIZE])",
        "pass",
    ),
    mutant(
        "watermark: passes what is unfinished",
        Epoch.pass_finished,
        "if (place := id(entry[MESSAGE])) not in done:",
        "if not done or (place := id(entry[MESSAGE])) in passed:",
    ),
    mutant(
        "extent: what waits is left out",
        Epoch.extent,
        "for entry in self.unfinished()",
        "for entry in list(self.unfinished())[:1]",
    ),
    mutant(
        "may start: above a drain's limit",
        Epoch.may_start,
        "entry[MESSAGE].offset() <= self.drain_limit",
        "True",
    ),
    mutant("fail: later ones of a batch run before it", Waiting.fail, "router.without_ended(later)", "[]"),
    mutant(
        "fail: followers are not pulled",
        Router.pull_several,
        "or (owner is not None and owner[0] is inbox and inbox.has_waiting(owner[1]))",
        "",
    ),
    mutant(
        "fail: what was pulled is lost",
        Waiting.fail,
        "behind += pulled.get(router.name_of(entry), ())",
        "pass",
    ),
    mutant("fail: an ended epoch's failure is decided", Waiting.fail, "if entry[EPOCH].ended:", "if False:"),
    Mutant(
        "fail: later ones of other partitions are lost",
        Waiting._fail_too_late,
        "self._continue(self._hold(entry, later))",
        "pass",
        a_batch_loses_records_of_another_partition,
    ),
    mutant(
        "fail: a deferred record of an ended epoch frees its key",
        Waiting._fail_too_late,
        "isinstance(decision, AwaitHead)",
        "False",
    ),
    mutant("wait: no retry comes due", Waiting.retry_due, "self._continue(held)", "pass"),
    mutant(
        "answer: an older ticket counts",
        Waiting.answer,
        "held.ticket is not ticket or held not in self.held",
        "False",
    ),
    mutant(
        "answer: a dead letter's key runs on", Waiting._answered, "self._follow(held, decision.after)", "True"
    ),
    mutant(
        "answer: what ended with its epoch has an outcome",
        Waiting.answer,
        "if ticket.attempt.epoch.ended:",
        "if False:",
    ),
    mutant(
        "let go: a key runs beside what still runs of it",
        Waiting._forget,
        "held.owners[held.key] = behind",
        "del held.owners[held.key]",
        is_batch=False,
        keys=3,
    ),
    mutant(
        "let go: a failed record above the drain's limit lets its key pass",
        Waiting._let_go,
        "known is not None and known.failed and not held.q[0][EPOCH].may_start(held.q[0])",
        "False",
        is_shared=True,
        keys=3,
        failing=0.5,
        partitions=range(4),
    ),
    mutant(
        "pause: what waits stays",
        Waiting.pause_key,
        "held.put_first(router.pull(owner[0], key, epoch), router.tally)",
        "pass",
    ),
    mutant(
        "pause: what runs is forgotten",
        Waiting.pause_key,
        "held.behind = router.running_behind(owner, (id(epoch.owners), key), len(held.q))",
        "pass",
    ),
    mutant(
        "arrived: what follows a dead letter waits for ever",
        Waiting._continue,
        "self._send_first(held)\n",
        "pass\n",
    ),
    mutant(
        "held: what is routed there is not counted",
        Held.count,
        "move(list(self.q)[self.counted :], total, 1)",
        "pass",
    ),
    mutant(
        "held: a first record leaves the parked ones uncounted",
        Held.take_first,
        "move((entry,), total, -1)",
        "pass",
    ),
    mutant(
        "receive: restored ranges run again",
        Inboxes.receive,
        "fresh, sizes = _take(fresh, left), _take(sizes, left)",
        "_ = left",
    ),
    mutant(
        "take: a batch is noted as finished",
        Inboxes.take,
        "inbox.head, inbox.slack = entries or None",
        "_, inbox.slack = entries or None",
    ),
    Mutant(
        "end batch: what is skipped counts as finished",
        Inboxes.end_batch,
        "tally.skipped_records += 1",
        "pass",
        a_batch_counts_what_it_skipped_otherwise,
    ),
    Mutant(
        "end batch: what is skipped counts twice",
        Inboxes.end_batch,
        "tally.finished_records -= 1",
        "pass",
        a_batch_counts_what_it_skipped_otherwise,
    ),
    Mutant(
        "end batch: what is skipped of an ended epoch counts",
        Inboxes.end_batch,
        "if not entry[EPOCH].ended:",
        "if True:",
        a_batch_counts_what_it_skipped_otherwise,
    ),
    mutant(
        "drain: given back records run", Ending._put_back, "elif entry[EPOCH].may_start(entry):", "elif True:"
    ),
    mutant(
        "drain: a failed record is given back and lets its key pass",
        Ending._put_back,
        "is not None and known.failed:",
        "is not None and False:",
        is_batch=True,
        is_shared=True,
        keys=3,
        failing=0.5,
        partitions=range(4),
    ),
    mutant("drain: what waits in piles is forgotten", Ending._all, ", *router.piles.all()", ""),
    mutant(
        "end: calls of ended epochs free their keys",
        Ending._clear_inboxes,
        "entry[EPOCH].owners[entry[KEY]] = owner",
        "pass",
    ),
    mutant(
        "end: the next epoch does not know the busy keys",
        Ending.end,
        "self._carried[epoch.partition] = epoch.owners",
        "pass",
    ),
    mutant("end: waiting records stay", Ending._clear_inboxes, "if entry[EPOCH] in gone:", "if False:"),
    mutant(
        "end: awaited records free their keys",
        Ending._clear,
        "[held.ticket is not None :]",
        "",
    ),
    mutant(
        "end: a held key loses its records' place",
        Ending._clear,
        "held.owners[held.key] = (held, held.sent)",
        "pass",
    ),
    mutant(
        "end: what runs stays in the backlog",
        Ending._count_running,
        "tally.leave_backlog(records, size)\n    total",
        "pass\n    total",
    ),
    mutant(
        "end: no key is forgotten with the last partition",
        Ending.end,
        "router.shared is not None and not router.epochs",
        "False",
    ),
    Mutant(
        "free: a call of this epoch counts as one of an ended one",
        Outliving._running_behind,
        "all(entry[EPOCH].ended for entry in its)",
        "True",
        partial(fails, test_outliving.test_a_call_of_this_epoch_is_none),
    ),
    Mutant(
        "free: what has just ended is freed",
        Outliving._running_behind,
        "not behind[0].is_live(behind[1])",
        "False",
        partial(
            fails,
            partial(test_seen.test_a_key_is_found_though_the_worker_that_ran_its_record_has_left, "paused"),
        ),
    ),
    Mutant(
        "free: the key stays with the call's worker",
        Router.unload,
        "if self.keeps_key(entry)",
        "if True",
        partial(fails, test_outliving.test_what_is_freed_does_not_wait_behind_that_call_again),
    ),
    Mutant(
        "free: the key waits for the call in the next epoch",
        Router.has_key,
        "if not self.keeps_key(entry):",
        "if False:",
        partial(fails, test_outliving.test_what_is_freed_does_not_wait_behind_that_call_again),
    ),
    Mutant(
        "end: what has ended keeps its key where the next record is shown",
        Router.has_key,
        "owner is None or owner[0] is inbox",
        "True",
        a_key_overlaps_where_the_next_record_is_shown,
    ),
    mutant(
        "end: what runs of a paused key is forgotten",
        Router.has_key,
        "if owner is not None and owner[0].slack == FOREVER:",
        "if False:",
    ),
    mutant("stop: what waits where a consumer is to go runs", Piles.stop, ", *router.leaving)", ",)"),
    Mutant(
        "shrink: what waits stays",
        resizing.shrink,
        "router.unload(inbox, router.open)",
        "pass",
        what_waits_stays_where_a_consumer_is_to_go,
    ),
    Mutant(
        "shrink: an inbox without a consumer takes new keys",
        resizing.shrink,
        "inbox.stuck = True",
        "pass",
        a_record_goes_where_the_consumer_has_left,
    ),
    mutant(
        "shrink: an inbox is forgotten while it is busy", resizing.shrink, "router.leaving += gone", "pass"
    ),
    mutant("leave: with records left", resizing.leave, "inbox.log or ", ""),
    mutant("leave: owners stay", Router.forget, "inbox.sent = FOREVER", "pass"),
    mutant(
        "runs: consumers that are to go are not looked at",
        Inboxes.all_inboxes,
        ", *self.router.leaving",
        "",
    ),
    mutant("runs: nothing is looked for", Inboxes.is_running, "entry[MESSAGE] is message", "False"),
    mutant(
        "runnable: what is in inboxes is not looked at",
        Ending._unfinished,
        "yield from (entry",
        "_ = (entry",
    ),
    mutant("check: retries never come", Inboxes.check, "self.waiting.retry_due(now_s)", "pass"),
    *UNREAD_MUTANTS,
]
