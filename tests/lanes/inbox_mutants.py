"""Guards of the inboxes, each taken out once: random histories must notice."""

from __future__ import annotations

from functools import partial
from typing import Any

from ehkafka.lanes import resizing
from ehkafka.lanes.balance import Balance
from ehkafka.lanes.ending import Ending
from ehkafka.lanes.epoch import Epoch
from ehkafka.lanes.held import Held
from ehkafka.lanes.inbox import Inbox
from ehkafka.lanes.inboxes import Inboxes
from ehkafka.lanes.outliving import Outliving
from ehkafka.lanes.piles import Piles
from ehkafka.lanes.put_back import PutBack
from ehkafka.lanes.routing import Router
from ehkafka.lanes.trials import Trials
from ehkafka.lanes.unread import Unread
from ehkafka.lanes.waiting import Waiting
from tests.kit.mutant import Mutant, fails
from tests.lanes import test_outliving, test_trials
from tests.lanes.inbox_scenarios import (
    a_batch_counts_what_it_skipped_otherwise,
    a_batch_loses_records_of_another_partition,
    a_history_is_red,
    a_key_overlaps_where_its_batch_was_put_back,
    a_key_overlaps_where_the_next_record_is_shown,
    a_record_goes_where_the_consumer_has_left,
    what_waits_stays_where_a_consumer_is_to_go,
)


def _mutant(name: str, function: Any, guard: str, without: str, **chosen: Any) -> Mutant:
    """Describe a guard; `chosen` are properties of histories in which its absence shows soon."""
    return Mutant(name, function, guard, without, partial(a_history_is_red, **chosen))


def _unread(name: str, function: Any, guard: str, without: str, **more: Any) -> Mutant:
    chosen = {"is_unread": True, "is_narrow": True, "is_batch": False, "is_shared": False, **more}
    return _mutant(name, function, guard, without, **chosen)


def _tried(name: str, function: Any, guard: str, without: str, **more: Any) -> Mutant:
    chosen = {"keys": 3, "failing": 0.3, "is_batch": False, "is_unread": False, **more}
    return _mutant(name, function, guard, without, **chosen)


MUTANTS = [
    _mutant(
        "finished: what runs is read before what waits",
        Inbox.take_finished,
        "waiting = len(self.q)  # first what waits, second what runs\n    head = self.head\n",
        "head = self.head\n    waiting = len(self.q)\n",
    ),
    _mutant(
        "take back: the queue is not replaced",
        Inbox.take_back,
        "q, self.q = self.q, self.make_queue()",
        "q = self.q",
    ),
    _mutant(
        "take back: taken records still count as sent", Inbox.take_back, "self.sent -= len(taken)", "pass"
    ),
    _mutant(
        "live: the running record does not keep its key",
        Inbox.is_live,
        "ahead > 0 or (ahead > -self.slack and self.head is not None)",
        "ahead > 0",
    ),
    _mutant("live: only the last record of a batch keeps its key", Inbox.is_live, "-self.slack", "-1"),
    _mutant(
        "route: the running record does not keep its key",
        Router.route,
        "ahead <= 0 and (ahead <= -inbox.slack or inbox.head is None)",
        "ahead <= 0",
    ),
    _mutant(
        "route: an unopened partition's records start",
        Router.route,
        "piles.stopped is not None or epoch in piles.unopened or",
        "piles.stopped is not None or",
    ),
    _mutant(
        "route: a stopped handler's records start",
        Router.route,
        "piles.stopped is not None or epoch in",
        "epoch in",
    ),
    _mutant("place: a drained record starts", Router.place, "not epoch.may_start(entry)", "False"),
    _mutant(
        "place: a key's waiting records stay behind in another inbox",
        Router.place,
        "pulled = self.pull(owner[0], entry[KEY], epoch)",
        "pulled: list[Entry] = []",
    ),
    _mutant(
        "place: what runs of a piled key is forgotten",
        Router.place,
        "if running is not None:",
        "if False:",
        is_shared=True,
        is_batch=False,
        keys=3,
        partitions=range(4),
    ),
    _mutant("pull: records of the key stay", Router.pull, "(mine if is_mine else others)", "others"),
    _mutant("put all: keys are not owned", Router.put_all, "zip(repeat(inbox), numbers)", "()"),
    _mutant(
        "place all: what still runs of the key is passed",
        Router.place_all,
        "self.choose() if owner is None else owner[0]",
        "self.choose()",
    ),
    _mutant(
        "unload: the running key's records move",
        Router.unload,
        "{self.name_of(entry) for entry in inbox.running() if self.keeps_key(entry)}",
        "set()",
    ),
    _mutant(
        "unload: records of one key go to two inboxes",
        Router.unload,
        "target = to[name] = targets",
        "target = targets",
    ),
    _mutant("stop: what runs is forgotten", Piles.stop, "pile.behind[router.name_of(entry)] = ", "_ = "),
    _mutant(
        "spread: a key does not go behind what runs of it", Piles._spread, "owners[key] = running", "pass"
    ),
    _mutant("note: a result of an ended epoch counts", Router._note, "if ended:", "if False:"),
    _mutant("note: attempts are kept", Router._note, "self.attempts.pop(id(entry[MESSAGE]), None)", "pass"),
    _mutant(
        "give back: a returned record stays in the backlog",
        Router.give_back,
        "tally.leave_backlog(1, size)",
        "pass",
    ),
    _mutant(
        "watermark: passes what is unfinished",
        Epoch.pass_finished,
        "if (place := id(entry[MESSAGE])) not in done:",
        "if not done or (place := id(entry[MESSAGE])) in passed:",
    ),
    _mutant(
        "extent: what waits is left out",
        Epoch.extent,
        "for entry in self.unfinished()",
        "for entry in list(self.unfinished())[:1]",
    ),
    _mutant(
        "may start: above a drain's limit",
        Epoch.may_start,
        "entry[MESSAGE].offset() <= self.drain_limit",
        "True",
    ),
    _mutant("fail: later ones of a batch run before it", Waiting.fail, "router.without_ended(later)", "[]"),
    _mutant(
        "fail: followers are not pulled",
        Router.pull_several,
        "if owner is not None and owner[0] is inbox and inbox.has_waiting(owner[1]):",
        "if False:",
    ),
    _mutant(
        "fail: what was pulled is lost",
        Waiting.fail,
        "behind += pulled.get(router.name_of(entry), ())",
        "pass",
    ),
    Mutant(
        "put back: owners keep numbers that have changed",
        PutBack.put_back,
        "self._own_again(inbox)",
        "pass",
        a_key_overlaps_where_its_batch_was_put_back,
    ),
    _mutant(
        "put back: a paused key's records pass those that wait",
        PutBack._is_elsewhere,
        "entry[EPOCH].owners[entry[KEY]][0] is not inbox",
        "False",
        is_batch=True,
    ),
    _mutant(
        "put back: a stopped handler's records start again",
        PutBack._is_elsewhere,
        "self._router.piles.stopped is not None or",
        "",
        is_batch=True,
    ),
    _mutant(
        "put back: records of ended epochs wait again",
        PutBack.put_back,
        "entry[EPOCH].ended or self._is_elsewhere",
        "self._is_elsewhere",
        is_batch=True,
    ),
    _mutant(
        "put back: a drained partition's records start again",
        PutBack.put_back,
        "self._ending.sort_out(inbox)",
        "pass",
        is_batch=True,
    ),
    _mutant("fail: an ended epoch's failure is decided", Waiting.fail, "if entry[EPOCH].ended:", "if False:"),
    Mutant(
        "fail: later ones of other partitions are lost",
        Waiting._fail_too_late,
        "self._continue(self._hold(entry, later))",
        "pass",
        a_batch_loses_records_of_another_partition,
    ),
    _mutant(
        "fail: a deferred record of an ended epoch frees its key",
        Waiting._fail_too_late,
        "isinstance(decision, AwaitHead)",
        "False",
    ),
    _mutant("wait: no retry comes due", Waiting.retry_due, "self._continue(held)", "pass"),
    _mutant(
        "answer: an older ticket counts",
        Waiting.answer,
        "held.ticket is not ticket or held not in self.held",
        "False",
    ),
    _mutant(
        "answer: a dead letter's key runs on", Waiting._answered, "self._follow(held, decision.after)", "True"
    ),
    _mutant(
        "answer: what ended with its epoch has an outcome",
        Waiting.answer,
        "if ticket.attempt.epoch.ended:",
        "if False:",
    ),
    _mutant(
        "let go: a key runs beside what still runs of it",
        Waiting._forget,
        "held.owners[held.key] = behind",
        "del held.owners[held.key]",
        is_batch=False,
        keys=3,
    ),
    _mutant(
        "let go: a failed record above the drain's limit lets its key pass",
        Waiting._let_go,
        "first is not None and id(first[MESSAGE]) in router.attempts and not first[EPOCH].may_start(first)",
        "False",
    ),
    _mutant(
        "pause: what waits stays",
        Waiting.pause_key,
        "held.put_first(router.pull(owner[0], key, epoch), router.tally)",
        "pass",
    ),
    _mutant(
        "pause: what runs is forgotten",
        Waiting.pause_key,
        "held.behind = router.running_behind(owner, key, epoch, len(held.q))",
        "pass",
    ),
    _mutant(
        "arrived: what follows a dead letter waits for ever",
        Waiting._continue,
        "self._send_first(held)",
        "pass",
    ),
    _mutant(
        "held: what is routed there is not counted",
        Held.count,
        "move(list(self.q)[self.counted :], total, 1)",
        "pass",
    ),
    _mutant(
        "held: a first record leaves the parked ones uncounted",
        Held.take_first,
        "move((entry,), total, -1)",
        "pass",
    ),
    _mutant(
        "receive: restored ranges run again",
        Inboxes.receive,
        "fresh, sizes = _take(fresh, left), _take(sizes, left)",
        "_ = left",
    ),
    _mutant(
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
    _mutant(
        "drain: given back records run", Ending._put_back, "elif entry[EPOCH].may_start(entry):", "elif True:"
    ),
    _mutant(
        "drain: a failed record is given back and lets its key pass",
        Ending._put_back,
        "elif id(entry[MESSAGE]) in router.attempts:",
        "elif False:",
        is_batch=True,
        is_shared=True,
        keys=3,
        failing=0.5,
        partitions=range(4),
    ),
    _mutant("drain: what waits in piles is forgotten", Ending._all, ", *router.piles.all()", ""),
    _mutant(
        "end: calls of ended epochs free their keys",
        Ending._clear_inboxes,
        "entry[EPOCH].owners[entry[KEY]] = owner",
        "pass",
    ),
    _mutant(
        "end: the next epoch does not know the busy keys",
        Ending.end,
        "self._carried[epoch.partition] = epoch.owners",
        "pass",
    ),
    _mutant("end: waiting records stay", Ending._clear_inboxes, "if entry[EPOCH] in gone:", "if False:"),
    _mutant(
        "end: awaited records free their keys", Ending._clear, "is_mine and not has_stale_first", "is_mine"
    ),
    _mutant(
        "end: a held key loses its records' place",
        Ending._clear,
        "held.owners[held.key] = (held, held.sent)",
        "pass",
    ),
    _mutant(
        "end: what runs stays in the backlog",
        Ending._count_running,
        "tally.leave_backlog(records, size)\n    total",
        "pass\n    total",
    ),
    _mutant(
        "end: no key is forgotten with the last partition",
        Ending.end,
        "router.shared is not None and not router.epochs",
        "False",
    ),
    Mutant(
        "free: a call of this epoch counts as one of an ended one",
        Outliving._running,
        "all(entry[EPOCH].ended for entry in its)",
        "True",
        partial(fails, test_outliving.test_a_call_of_this_epoch_is_none),
    ),
    Mutant(
        "free: what has just ended is freed",
        Outliving._free_from,
        "self._running(owner, key, epoch) is call",
        "True",
        partial(fails, test_outliving.test_a_call_that_has_just_ended_is_not_freed),
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
    _mutant(
        "end: what runs of a paused key is forgotten",
        Router.has_key,
        "if owner is not None and owner[0].slack == FOREVER:",
        "if False:",
    ),
    _mutant("stop: what waits where a consumer is to go runs", Piles.stop, ", *router.leaving)", ",)"),
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
    _mutant(
        "shrink: an inbox is forgotten while it is busy", resizing.shrink, "router.leaving += gone", "pass"
    ),
    _mutant("leave: with records left", resizing.leave, "inbox.log or ", ""),
    _mutant("leave: owners stay", Router.forget, "inbox.sent = FOREVER", "pass"),
    _mutant(
        "idle: what runs is not looked at",
        Inboxes.is_idle,
        "inbox.is_empty()",
        "not inbox.q",
    ),
    _mutant(
        "idle: consumers that are to go are not looked at",
        Inboxes.all_inboxes,
        ", *self.router.leaving",
        "",
    ),
    _mutant("runs: what waits", Inboxes.is_running, "in inbox.running())", "in inbox.log)"),
    _mutant(
        "runs: where the key is not, nothing is looked for",
        Inboxes.is_running,
        "(*first, *self.all_inboxes())",
        "first",
    ),
    _mutant(
        "runnable: what is in inboxes is not looked at",
        Ending._unfinished,
        "yield from (entry",
        "_ = (entry",
    ),
    _unread("unread: begins while another inbox has some", Unread._begin, "not inbox.is_empty()", "False"),
    _unread("unread: begins while a key waits", Unread.is_possible, "router.held or ", ""),
    _unread("unread: begins while a key is on trial", Unread.is_possible, " or router.trials.keys", ""),
    _unread("unread: begins though something waits in a pile", Unread._begin, " or router.piles.all()", ""),
    _unread(
        "unread: begins while a partition drains", Unread._begin, "epoch.drain_limit is not None", "False"
    ),
    _unread(
        "unread: what runs owns no key",
        Unread.end,
        "entry[EPOCH].owners[entry[KEY]] = (inbox, inbox.noted + 1 + place)",
        "pass",
        keys=1,
        failing=0,
    ),
    _unread(
        "unread: read keys are not known to the epoch", Unread.end, "self._put_into_order(entries)", "pass"
    ),
    _unread("fail: keys stay unread", Waiting.fail, "router.unread.end(rest_records=KEYED_RECORDS)", "pass"),
    _unread("pause: keys stay unread", Waiting.pause_key, "router.unread.end()", "pass"),
    _unread("stop: keys stay unread", Piles.stop, "router.unread.end()", "pass"),
    _unread("hold back: keys stay unread", Piles.hold_back, "self._router.unread.end()", "pass", failing=0),
    _unread("drain: keys stay unread", Ending.drain, "self._router.unread.end()", "pass"),
    _unread("end: keys stay unread", Ending.end, "router.unread.end()", "pass"),
    _unread("width: keys stay unread", Balance._set_width, "router.unread.end()", "pass"),
    _tried(
        "trial: what goes to a consumer owns its key",
        Router.put,
        "self.trials.keys and self.trials.has_moved(inbox, entry, number)",
        "False",
    ),
    _tried("trial: several that go own their keys", Router.put_all, "if self.trials.keys:", "if False:"),
    _tried("trial: where it has gone is forgotten", Trials.has_moved, "held.behind = inbox, number", "pass"),
    _tried(
        "trial: what has gone stays where one failed",
        Router.pull_several,
        "owner = tried.behind",
        "owner = None",
    ),
    _tried("trial: more go while some run", Trials.go_on, "inbox.noted >= number", "True"),
    _tried("trial: no more go", Trials.go_on, "self._go_on(held)", "pass"),
    _tried("trial: more go though something waits in a pile", Trials._go_on, "router.piles.is_open and ", ""),
    _tried("trial: a failed record's key does not wait", Waiting._hold, "router.trials.take(held)", "pass"),
    _tried(
        "trial: a command finds a key that does not wait",
        Waiting.find,
        "owner[0] in self.held",
        "isinstance(owner[0], Held)",
    ),
    _tried(
        "pause: what has gone of a key on trial starts",
        Waiting.pause_key,
        "router.trials.end_key(epoch.owners, key)",
        "pass",
    ),
    _tried("stop: keys on trial go on", Piles.stop, "router.trials.end_all()", "pass"),
    _tried("end: keys on trial stay", Ending.end, "router.trials.end_all()", "pass"),
    _tried("put back: keys on trial", PutBack.put_back, "router.trials.end_all()", "pass", is_batch=True),
    _tried(
        "trial: records pass where all others have one home",
        Router._only_home,
        "self.trials.keys or ",
        "",
        is_narrow=True,
        is_unread=True,
    ),
    _tried(
        "trial: no retry of a key that waits again",
        Waiting._hold,
        "router.trials.take(held)\n        self.held[held] = None",
        "router.trials.take(held)",
    ),
    Mutant(
        "trial: begins while a partition drains",
        Trials._go_on,
        "all(entry[EPOCH].drain_limit is None for entry in first)",
        "True",
        partial(fails, test_trials.test_no_key_comes_on_trial_while_its_partition_drains),
    ),
    Mutant(
        "trial: begins beside what runs",
        Trials.begin,
        "held.key not in held.owners",
        "True",
        partial(fails, test_trials.test_nothing_of_a_key_goes_beside_its_running_record),
    ),
    Mutant(
        "drain: what waits of keys on trial counts as started",
        Ending.drain,
        "self._router.trials.end_all()",
        "pass",
        partial(fails, test_trials.test_a_drain_leaves_what_has_not_gone_to_a_consumer),
    ),
    _mutant("check: retries never come", Inboxes.check, "self.waiting.retry_due(now_s)", "pass"),
]
