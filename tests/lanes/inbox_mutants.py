"""Guards of the inboxes, each taken out once: random histories must notice, or a test."""

from __future__ import annotations

from functools import partial

from ehkafka.lanes import (
    balance,
    ending,
    epoch,
    held,
    inbox,
    inboxes,
    outliving,
    piles,
    put_back,
    resizing,
    routing,
    slow_start,
    tally,
    unread,
    waiting,
)
from tests.kit.mutant import table
from tests.lanes import (
    test_outliving,
    test_scenarios,
    test_seen,
    test_slow_start,
    test_unread,
    test_watermark,
)
from tests.lanes.inbox_world import histories
from tests.workers.batches import test_results

IN = (
    *(balance, ending, epoch, held, inbox, inboxes, outliving, piles, put_back, resizing, routing),
    *(slow_start, tally, unread, waiting),
    *(test_seen, test_outliving, test_results, test_scenarios, test_slow_start, test_unread, test_watermark),
)

INBOXES = r"""
Inbox.count_finished: finished: what runs is read before what waits
    waiting = len(self.q)  # first what waits, second what runs\n    head = self.head
    -> head = self.head\n    waiting = len(self.q)
Inbox.empty_queue: take back: the queue is not replaced
    q, self.q = self.q, self.make_queue() -> q = self.q
Inbox.take_back: take back: taken records still count as sent
    self.sent -= len(taken) -> pass
Inbox.is_live: live: the running record does not keep its key
    ahead > 0 or (ahead > -self.slack and self.head is not None) -> ahead > 0
Inbox.is_live: live: only the last record of a batch keeps its key
    -self.slack -> -1
Router.place: place: an unopened partition's records start
    self.piles.unopened.get(epoch) or ->
Router.place: place: a stopped handler's records start
    or self.piles.stopped ->
Inbox.is_live: live: what was seen to have ended is forgotten
    self.ended = max(self.ended, number) -> pass
    by test_what_was_seen_to_have_ended_is_never_counted_as_running_again way="placed"
Router._append: route: what was seen to have ended is forgotten
    inbox.ended = max(inbox.ended, owner[1]) -> pass
    by test_what_was_seen_to_have_ended_is_never_counted_as_running_again way="received"
Router._append: route: the running record does not keep its key
    ahead <= 0 and (ahead <= -inbox.slack or inbox.head is None) -> ahead <= 0
Router.route: route: what is drained or piled starts
    self.piles.is_open and epoch.drain_limit is None -> True
Router.route: route: a drained record starts where all others have one home
    is not None and epoch.drain_limit is None -> is not None
    by is_narrow=True
Router.only_home: route: records start where a pile is
    and self.piles.is_open ->
    by is_narrow=True
Router.place: place: a drained record starts
    not epoch.may_start(entry) -> False
Router.place: place: a key's waiting records stay behind in another inbox
    pulled, running = self.pull(owner, name := self.name_of(entry))
    -> pulled, (_, running) = [], self.pull(owner, name := self.name_of(entry))
    by first=79
Router.place: place: what runs of a piled key is forgotten
    if running is not None: -> if False:
    by is_shared=True, is_batch=False, keys=3, partitions=range(0, 4), first=106
Router._pull: pull: records of the key stay
    if entry[KEY] in keys and self.name_of(entry) in names -> if False
Router._pull: pull: where a key in slow start goes on is forgotten
    self.slow.has_moved(inbox, entry, number) -> pass
    by first=1457
Router.settle: settle: keys are not owned
    epoch.owners.update(dict.fromkeys(map(_KEY_OF, run), (inbox, inbox.sent))) -> pass
Router.put_all: put all: keys are not owned
    zip(repeat(inbox), numbers) -> ()
Router.place_all: place all: what still runs of the key is passed
    self.choose() if owner is None else owner[0] -> self.choose()
Router.unload: unload: the running key's records move
    {self.name_of(entry) for entry in inbox.running() if self.keeps_key(entry)} -> set()
Router.unload: unload: records of one key go to two inboxes
    target = to[name] = targets -> target = targets
Piles.stop: stop: what runs is forgotten
    pile.behind[router.name_of(entry)] = -> _ =
Piles._spread: spread: a key does not go behind what runs of it
    owners[key] = running -> pass
Router.note_entries: note: a result of an ended epoch counts
    if epoch.ended: -> if False:
Router.note_entries: note: attempts are kept
    self.attempts.pop(id(entry[MESSAGE]), None) -> pass
Tally.end: a record with a result stays in the backlog
    backlog_records=-records, backlog_bytes=-size, ->
Epoch.pass_finished: watermark: passes what is unfinished
    if (place := id(entry[MESSAGE])) not in done: -> if not done or (place := id(entry[MESSAGE])) in passed:
Epoch.extent: extent: what waits is left out
    for entry in self.unfinished() -> for entry in list(self.unfinished())[:1]
Epoch.may_start: may start: above a drain's limit
    entry[MESSAGE].offset() <= self.drain_limit -> True
WaitingKeys.fail: fail: later ones of a batch run before it
    router.without_ended(later) -> []
Router.pull_several: fail: followers are not pulled
    if owner is not None and owner[0] is inbox and inbox.has_waiting(owner[1]): -> if False:
WaitingKeys.fail: fail: what was pulled is lost
    behind += pulled.get(router.name_of(entry), ()) -> pass
WaitingKeys.fail: fail: an ended epoch's failure is decided
    if entry[EPOCH].ended: -> if False:
WaitingKeys._fail_too_late: fail: later ones of other partitions are lost
    self._continue(self._hold(entry, later)) -> pass
    by test_a_batch_keeps_its_records_of_other_partitions
WaitingKeys._fail_too_late: fail: a deferred record of an ended epoch frees its key
    isinstance(decision, AwaitHead) -> False
    by first=45
WaitingKeys.retry_due: wait: no retry comes due
    self._continue(held) -> pass
WaitingKeys.answer: answer: an older ticket counts
    held.ticket is not ticket or held not in self.held -> False
    by first=72
WaitingKeys._answered: answer: a dead letter's key runs on
    self._follow(held, decision.after) -> True
WaitingKeys.answer: answer: what ended with its epoch has an outcome
    if ticket.attempt.epoch.ended: -> if False:
Held.disown: let go: a key runs while a record of it still runs
    self.owners[self.key] = self.behind -> del self.owners[self.key]
    by is_batch=False, keys=3
WaitingKeys._let_go: let go: a failed record above the drain's limit lets its key pass
    known is not None and not held.q[0][EPOCH].may_start(held.q[0]) -> False
    by is_shared=True, keys=3, failing=0.5, partitions=range(0, 4), first=51
WaitingKeys._wait: wait: a drain waits for a key that waits
    held.set_parked(parked=True) -> pass
    by test_a_drain_does_not_wait_for_records_above_its_limit_whose_batch_raised
WaitingKeys._gather: pause: what waits stays
    held.put_first(pulled) -> pass
WaitingKeys._gather: pause: what runs is forgotten
    pulled, held.behind = -> pulled, _ =
    by first=176
WaitingKeys._continue: arrived: what follows a dead letter waits for ever
    self._send_first(held)\n -> pass\n
Held.count: held: what is routed there is not counted
    move(list(self.q)[self.counted :], 1) -> pass
Held.take_first: held: a first record leaves the parked ones uncounted
    move((entry,), -1) -> pass
Inboxes.receive: receive: restored ranges run again
    fresh, sizes = _take(fresh, left), _take(sizes, left) -> _ = left
Inboxes.take: take: a batch is noted as finished
    inbox.head, inbox.slack = entries or None -> _, inbox.slack = entries or None
Inboxes.end_batch: end batch: what is skipped counts as finished
    , skipped_records=1 ->
    by test_skipped_records_are_counted_as_such
Inboxes.end_batch: end batch: what is skipped counts twice
    finished_records=-1, ->
    by test_skipped_records_are_counted_as_such
Inboxes.end_batch: end batch: what is skipped of an ended epoch counts
    if not entry[EPOCH].ended: -> if True:
    by test_what_a_batch_did_for_an_ended_epoch_counts_for_nothing scope="partition"
Ending._put_back: drain: given back records run
    elif entry[EPOCH].may_start(entry): -> elif True:
Ending._put_back: drain: a failed record is given back and lets its key pass
    elif id(entry[MESSAGE]) in router.attempts: -> elif False:
    by is_batch=True, is_shared=True, keys=3, failing=0.5, partitions=range(0, 4), first=40
Ending._all: drain: what waits in piles is forgotten
    , *router.piles.all() ->
Ending._clear_inboxes: end: calls of ended epochs free their keys
    entry[EPOCH].owners[entry[KEY]] = owner -> pass
    by first=73
Ending.end: end: the next epoch does not know the busy keys
    self._carried[epoch.partition] = epoch.owners -> pass
Ending._clear_inboxes: end: waiting records stay
    if entry[EPOCH] in gone: -> if False:
Ending._clear: end: awaited records free their keys
    [held.ticket is not None :] ->
Ending._clear: end: a held key loses its records' place
    held.owners[held.key] = (held, held.sent) -> pass
    by first=43
ending._count_running: end: what runs stays in the backlog
    epoch.tally.give_back(epoch.tally.backlog_records, epoch.tally.backlog_bytes) -> pass
Ending.end: end: no key is forgotten with the last partition
    router.shared is not None and not router.epochs -> False
Outliving._running_behind: free: a call of this epoch counts as one of an ended one
    all(entry[EPOCH].ended for entry in its) -> True
    by test_a_call_of_this_epoch_is_none
Outliving._running_behind: free: what has just ended is freed
    not behind[0].is_live(behind[1]) -> False
    by test_a_key_is_found_though_the_worker_that_ran_its_record_has_left waits="paused"
Router.unload: free: the key stays with the call's worker
    if self.keeps_key(entry) -> if True
    by test_what_is_freed_does_not_wait_behind_that_call_again
Router.running_keys: free: the key waits for the call in the next epoch
    if self.keeps_key(entry) ->
    by test_what_is_freed_does_not_wait_behind_that_call_again
Piles.stop: stop: what waits where a consumer is to go runs
    , *router.leaving) -> ,)
    by first=133
resizing.shrink: shrink: what waits stays
    router.unload(inbox, router.open) -> pass
    by test_what_waits_behind_a_long_call_goes_on_where_the_consumer_is_to_leave
resizing.shrink: shrink: an inbox without a consumer takes new keys
    inbox.stuck = True -> pass
    by test_no_record_goes_where_the_consumer_has_left
resizing.shrink: shrink: an inbox is forgotten while it is busy
    router.leaving += gone -> pass
resizing.leave: leave: with records left
    inbox.log or ->
    by first=1199
Router.forget: leave: owners stay
    inbox.sent = FOREVER -> pass
    by first=115
Inboxes.all_inboxes: runs: consumers that are to go are not looked at
    , *self.router.leaving ->
    by first=54
Inboxes.is_running: runs: nothing is looked for
    entry[MESSAGE] is message -> False
Ending._unfinished: runnable: what is in inboxes is not looked at
    yield from (entry -> _ = (entry
Inboxes.check: check: retries never come
    self.waiting.retry_due(now_s) -> pass
"""

# Records whose keys are unread.
UNREAD = r"""
Router.only_home: unread: begins while another inbox has some
    any(inbox is not home for inbox in self.moving()) -> False
Unread.takes: unread: begins while a partition drains
    epoch.drain_limit is not None -> False
Unread.needs_no_keys: unread: begins while a key waits
    router.held or ->
    by is_batch=True
Unread.end: unread: what runs owns no key
    entry[EPOCH].owners[entry[KEY]] = owner -> pass
    by keys=1, failing=0, first=77
Unread._take_first: unread: what is read is not known to the epoch
    epoch.order.extend(entries) -> pass
Epoch.unfinished: unread: runs are not looked at
    if self.runs else known -> if False else known
Unread._finish: unread: nothing finishes
    epoch.tally.finish(finished, sum(run.sizes[first : run.first])) -> pass
Unread._finish: unread: a result of an ended epoch counts
    if epoch.ended: -> if False:
    by test_what_ends_after_its_epoch_counts_for_nothing
Unread.fail: unread: records of a key that failed run
    self.ahead = inbox.q[0] if inbox.q else None -> pass
Unread.fail: unread: read records of a key that failed stay
    self.end()\n    elif -> pass\n    elif
    by test_records_whose_keys_an_inspection_has_read_wait_too_once_their_key_fails
Unread.receive: unread: records of a waiting key run as they are received
    self.ahead = items[0] -> pass
Unread.inspect: unread: what goes again goes behind what is unread
    self.ahead = inbox.q[records] -> self.ahead = inbox.q[-1]
Unread._put_first: unread: a number was seen to have ended
    min(inbox.ended, inbox.noted) -> inbox.ended
    by test_a_record_that_goes_again_is_running_though_its_consumer_was_seen_to_have_ended
Epoch.note_unread: unread: a drain does not know what finished above a record that goes again
    self.unread_finished = finished[-1].offset() -> pass
    by test_a_drain_finishes_a_record_that_goes_again_below_what_finished_unread
Unread.end: unread: what goes again is lost
    [*again, *(entry -> [*(entry
    by first=83
Unread.end: unread: what waits passes its key
    router.put_behind(entry for entry in waiting if id(entry) not in read)
    -> [entry for entry in waiting if id(entry) not in read]
Router.route: receive: records of a waiting key run
    waits = self.held or self.slow.keys -> waits = False
    by is_unread=True, is_narrow=True
WaitingKeys.find: pause: keys stay unread
    self.router.unread.end() -> pass
    by test_a_paused_key_waits_with_all_its_unread_records
Piles.stop: stop: keys stay unread
    router.unread.end() -> pass
Piles.hold_back: hold back: keys stay unread
    self._router.unread.end() -> pass
    by test_records_of_a_partition_that_is_not_open_wait_though_others_are_unread
Ending.drain: drain: keys stay unread
    self._router.unread.end() -> pass
Ending.end: end: keys stay unread
    router.unread.end() -> pass
Balance._set_width: width: keys stay unread
    router.unread.end() -> pass
    by test_behind_a_call_that_takes_long_keys_are_read_and_others_go_on
"""

# Keys in slow start.
SLOW_START = r"""
Router.put: slow start: what goes to a consumer owns its key
    self.slow.keys and self.slow.has_moved(inbox, entry, number) -> False
Router.put_all: slow start: several that go own their keys
    if self.slow.keys: -> if False:
SlowStart.has_moved: slow start: where it it went is forgotten
    held.behind = inbox, number -> pass
Router.pull_several: slow start: what has gone stays where one failed
    owner = tried.behind -> owner = None
SlowStart.go_on: slow start: more go while some run
    inbox.noted >= number -> True
SlowStart.go_on: slow start: no more go
    self._go_on(held) -> pass
SlowStart._go_on: slow start: more go though a pile waits
    router.piles.is_open and ->
WaitingKeys._hold: slow start: a failed record's key does not wait
    router.slow.take(held) -> pass
WaitingKeys.find: slow start: a command finds a key that does not wait
    owner[0] in self.held -> isinstance(owner[0], Held)
WaitingKeys._waiting_key: pause: what has gone of a key in slow start starts
    self.router.slow.end_key(epoch.owners, key) -> pass
Piles.stop: stop: keys in slow start go on
    router.slow.end_all() -> pass
Ending.end: end: keys in slow start stay
    router.slow.end_all() -> pass
put_back.put_back: put back: keys in slow start
    router.slow.end_all() -> pass
    by is_batch=True
SlowStart.end: slow start: what has gone stays counted as waiting
    held.set_parked(parked=False) -> pass
Inboxes.take_touched: slow start: what comes while one is tried fills the backlog
    inbox.count() -> pass
    by test_what_has_not_gone_to_a_consumer_counts_as_waiting
Router.route: slow start: records pass where all others have one home
    waits = self.held or self.slow.keys -> waits = self.held
    by is_unread=True, is_narrow=True
WaitingKeys._hold: slow start: no retry of a key that waits again
    router.slow.take(held)\n        self.held[held] = None -> router.slow.take(held)
SlowStart._go_on: slow start: begins while a partition drains
    all(entry[EPOCH].drain_limit is None for entry in first) -> True
    by test_no_key_starts_slowly_while_its_partition_drains
SlowStart.begin: slow start: begins while the key runs
    held.key not in held.owners -> True
    by test_nothing_of_a_key_goes_beside_its_running_record
Ending.drain: drain: what waits of keys in slow start counts as started
    self._router.slow.end_all() -> pass
    by test_a_drain_leaves_what_has_not_gone_to_a_consumer
"""

# What a batch puts back.
PUT_BACK = r"""
put_back.put_back: put back: owners keep numbers that have changed
    inbox, max(number, owners[key][1]) -> owners[key]
    by test_a_key_that_was_put_back_keeps_its_place
put_back._is_elsewhere: put back: a paused key's records pass those that wait
    entry[EPOCH].owners[entry[KEY]][0] is not inbox -> False
    by first=40
put_back._is_elsewhere: put back: a stopped handler's records start again
    router.piles.stopped is not None or ->
    by first=47
put_back.put_back: put back: records of ended epochs wait again
    entry[EPOCH].ended or _is_elsewhere -> _is_elsewhere
put_back.put_back: put back: a drained partition's records start again
    inboxes.ending.sort_out(inbox) -> pass
    by first=92
"""

MUTANTS = [
    *table(INBOXES, histories, *IN),
    *table(UNREAD, partial(histories, is_unread=True, is_narrow=True, is_batch=False, is_shared=False), *IN),
    *table(SLOW_START, partial(histories, keys=3, failing=0.3, is_batch=False, is_unread=False), *IN),
    *table(PUT_BACK, partial(histories, is_batch=True), *IN),
]
