"""Guards of the pure core, of what commits and of transactions, each taken out once.

A guard that is no longer there fails its test too: then its line is to be written anew, not dropped. What the
poll thread does of transactions is in the simulated member; a mutant there shows that the seeds notice.
Guards of the inboxes themselves are in `tests/lanes/inbox_mutants.py`.
"""

from __future__ import annotations

from functools import partial

from ehkafka.intake import backpressure, flow, owned, pace
from ehkafka.lanes import ending, epoch, finished, held, inboxes, piles, received, waiting
from ehkafka.progress import ledger, ranges, saving
from ehkafka.transactions import committing, coverage, group_commits, handing, loop, refusals
from ehkafka.transactions import held as transaction_held
from ehkafka.transactions import saving as transaction_saving
from tests.intake import test_backpressure, test_epochs, test_flow, test_pace
from tests.kit.mutant import table
from tests.kit.simulated import transactional_member
from tests.lanes import (
    test_draining,
    test_finished,
    test_gaps_and_skips,
    test_many_in_hand,
    test_outliving,
    test_scenarios,
    test_seen,
    test_slow_start,
    test_waiting,
)
from tests.lanes.inbox_world import histories
from tests.progress import test_between_looks, test_ledger
from tests.simulation.seeds import seeds
from tests.transactions import (
    test_group_commits,
    test_held,
    test_loop,
    test_next_producer,
    test_saving,
    test_search,
)

IN = (
    *(backpressure, flow, pace),
    *(ending, epoch, finished, held, inboxes, piles, received, waiting),
    *(ledger, ranges, saving),
    *(committing, coverage, handing, transaction_held, loop, refusals),
    *(transaction_saving, transactional_member, group_commits),
    *(test_backpressure, test_flow, test_pace, test_epochs, test_between_looks, test_ledger),
    *(test_draining, test_finished, test_gaps_and_skips, test_many_in_hand, test_outliving, test_scenarios),
    *(test_seen, test_slow_start, test_waiting),
    *(test_group_commits, test_held, test_loop, test_next_producer, test_saving, test_search),
    # Last: it has a `Waiting` too.
    owned,
)

# What still starts, what is returned and what is waited for.
DRAINS = r"""
Ending.drain: a drain finishes nothing below the highest started
    epoch.highest_started(waiting) if fits is not None else -1 -> -1
    by test_a_drain_finishes_what_lies_below_the_highest_started_offset
Ending.drain: a drain begins what does not fit
    fits(self._work(epochs)) or self.drain(epochs, None) -> True
    by test_what_is_asked_for_is_the_work_below_the_highest_started_offsets
Ending.drain: a drain that was begun goes on though its time is over
    min([epoch.drain_limit if fits is not None else -1, -> min([epoch.drain_limit,
    by test_a_drain_that_turns_out_too_long_is_cut_short_later
Ending.drain: a drain goes on above a head that waits
    -1, *offsets] -> -1]
    by test_a_record_that_fails_during_a_drain_holds_the_position
WaitingKeys._continue: a diverted key goes on above the drain's limit
    first is not None and first[EPOCH].may_start(first) -> first is not None
    by test_a_drain_waits_for_a_letter_on_its_way_and_begins_none_above_its_limit
Ending.undrained: a drain does not wait for what runs
    if epoch.tally.backlog_records -> if False
    by test_a_drain_finishes_what_lies_below_the_highest_started_offset
Ending.undrained: a drain does not wait for a waiting key's letter
    held.ticket is not None and held.q -> False
    by test_a_drain_waits_for_a_letter_on_its_way_and_begins_none_above_its_limit
Ending.is_drained: a drain is over at once
    not self.undrained(epochs) -> True
Epoch.may_start: what is received in a drain starts
    or entry[MESSAGE].offset() <= self.drain_limit -> or True
    by test_a_drain_finishes_what_lies_below_the_highest_started_offset
Epoch.highest_started: started records are not known
    if id(entry[MESSAGE]) not in unstarted: -> if True:
    by test_a_drain_finishes_what_lies_below_the_highest_started_offset
Epoch.highest_started: what holds no record counts as started
    self.order[0][MESSAGE].offset() if self.order else self.received.next_offset -> self.received.next_offset
    by test_a_drain_with_nothing_started_leaves_everything
"""

# Who is paused for its backlog or its waiting records, and who resumes.
FLOW = r"""
FlowControl._free: what is parked beyond its budget is taken anew
    - beyond_records ->
    by first=91
FlowControl.over_parked_share: a full parked budget pauses no partition
    epoch.tally.parked_records >= records -> False
    by test_only_the_partition_that_filled_its_parked_share_is_paused_until_half_of_it
FlowControl._free: the backlog has no limit
    limits.backlog_records_max - amounts.backlog_records - beyond_records -> limits.backlog_records_max
FlowControl.to_pause: a partition is paused though its records end
    if _is_over(one, records // parts, size // parts) -> if one.epoch.tally.backlog_records > records // parts
    by test_what_is_not_stuck_is_not_paused
FlowControl.to_pause: partitions are paused where no other gains
    or (over and not gains) ->
    by test_nothing_is_paused_where_no_partition_gains
FlowControl.to_pause: partitions are paused for one whose log has ended
    has_unread(one.epoch.partition) and not _has_enough(one) -> not _has_enough(one)
    by test_whose_log_has_ended_gains_nothing
FlowControl.to_pause: partitions are paused for one that has enough
    has_unread(one.epoch.partition) and not _has_enough(one) -> has_unread(one.epoch.partition)
    by test_who_holds_work_for_some_seconds_gains_nothing
FlowControl._may_go_on: a paused partition resumes at once
    if tally.backlog_records <= pause.records // _RESUME_PARTS -> if tally.backlog_records < pause.records
    by test_a_paused_partition_goes_on_once_a_quarter_of_what_it_held_is_left
FlowControl._may_go_on: a stuck partition is tried again at once
    and now_s >= pause.again_s ->
    by test_a_paused_partition_goes_on_once_a_quarter_of_what_it_held_is_left
FlowControl.to_resume: partitions go on though nearly nothing is free
    if not self._is_worth_a_fetch(amounts): -> if False:
    by test_a_full_backlog_ends_for_those_that_moved_though_one_holds_more_than_half_for_ever
FlowControl.batch_size: a batch fills the backlog
    min(self.room(amounts), max(1, part)) -> self.room(amounts)
    by test_a_batch_is_a_part_of_what_is_free_but_one_record_at_least
PartitionPaces.stuck_records: what ends within a second is stuck
    - max(0, ended) ->
    by test_what_ends_within_a_second_is_not_stuck paces=test_pace.PartitionPaces()
Backpressure.make_room: a call to keep in touch finds no room
    self._context.flow.room(self.amounts()) == 0 -> False
    by test_a_full_backlog_is_paused_before_the_client_is_called bench=test_backpressure.Bench()
FlowControl.forget: a revoked partition stays paused
    self.paused.discard(partition) -> pass
    by test_a_revoked_partition_comes_back_unpaused
"""

# What the commit position passes, its gaps and its marks.
POSITIONS = r"""
Epoch.watermark: the commit position passes what is unfinished
    self.received.next_offset if oldest is None else oldest[MESSAGE].offset() -> self.received.next_offset
Epoch.extent: what waits is saved as finished
    for entry in self.unfinished() -> for entry in list(self.unfinished())[:1]
    by saves_ranges=True
Received.note: leader epochs within a batch are lost
    message.leader_epoch() != following.leader_epoch() -> False
Received.skip_to: a gap does not move the position
    self.next_offset = next_offset -> pass
    by test_the_watermark_passes_a_gap_once_what_lies_before_it_is_done
Received.skip_to: the end of a gap gets the next record's leader epoch
    self.batches.add(ReceivedBatch(next_offset - 1, now_s, leader_epoch)) -> pass
    by test_a_commit_at_the_end_of_a_gap_carries_no_leader_epoch
Received.skip_to: a position jumps back within an epoch
    assert self.next_offset is None or next_offset >= self.next_offset -> pass
    by test_a_position_never_jumps_back_within_an_epoch
"""

# What is committed and saved.
PROGRESS = r"""
Extent.finished: what was restored is forgotten before it is received
    if self.before is not None: -> if False:
    by test_restored_ranges_stay_until_their_records_were_received
FinishedBefore._has: a record that replaced a finished one is skipped
    and not self._is_newer(message) ->
    by test_a_record_of_a_newer_leader_is_another_one
CommitLedger._dirty: metadata that was refused is offered again
    _offered(entry, position) -> position
    by test_refused_metadata_is_not_offered_again_in_this_epoch
CommitLedger.plan: a failed commit is not dirty any more
    self.in_flight = dirty -> self.in_flight = dirty; self.confirm(dirty, now_s)
    by first=63
CommitLedger.confirm: the ledger takes answers of other epochs
    entry is None or entry.epoch != position.epoch -> entry is None
    by test_an_acknowledgement_of_another_epoch_does_not_count
CommitLedger._dirty: the ledger sends positions of other epochs
    entry is None or entry.epoch != position.epoch -> entry is None
    by test_a_position_of_another_epoch_is_not_sent epoch=0
CommitLedger.confirm: a late answer lowers what is known
    known is None or position.next_offset >= known.next_offset -> True
    by test_a_late_acknowledgement_never_lowers_what_is_known
CommitLedger._differs: an unchanged position is dirty
    position.next_offset > known.next_offset -> True
    by test_an_unchanged_position_is_not_sent_again
CommitLedger.confirm: a position is clean by an older acknowledgement
    entry.acknowledged, entry.same = position, None -> entry.acknowledged = position
    by test_the_texts_of_an_idle_partition_are_read_once
CommitLedger.due: at rest a record that has ended is not committed
    is_at_rest and finished_records == self._finished_at_last_plan -> is_at_rest
    by test_at_rest_a_commit_is_due_once_a_record_has_ended
CommitLedger.due: a second commit is sent while one is in flight
    self.in_flight is not None or ->
    by test_at_most_one_commit_is_in_flight_and_the_latest_wins
CommitLedger.due: a failed commit is tried again at once
    or now_s < self._not_before_s ->
    by test_a_failed_commit_stays_dirty
ProgressSaver._found: a commit between two looks says nothing of what is finished
    known = self._known.get(place, Known()).above(sample.next_offset) -> known = Known()
    by saves_ranges=True
ProgressSaver.begin: what was restored is not said before the first look
    self._known[place] = -> _ =
    by test_a_restored_commit_is_not_sent_back_before_anything_has_changed
ProgressSaver._found: what was restored and is gone from the log is said to be finished
    self._known.pop(place, None) -> pass
    by test_what_was_restored_is_dropped_when_the_log_has_other_records_there
Known.above: a commit between two looks is not cut at its position
    self.finished[below:] -> self.finished
    by test_a_commit_whose_position_moved_between_two_looks_keeps_what_lies_above
OwnedPartitions.begin: an epoch's number is used again
    self._last.get(partition, 0) + 1 -> 1
    by test_every_assignment_of_a_partition_has_a_new_epoch
"""

# What sends exactly once: what is covered, taken, given back, fenced, and found out.
TRANSACTIONS = r"""
Coverage.__init__: covered by known ranges instead of by the text
    cover_of(position) -> Cover(position.next_offset, position.finished)
    by way="short-texts"
Cover.has: what lies between the ranges of a commit is covered
    place >= 0 and offset < self._ends[place] -> place >= 0
Cover.has: only what lies below a commit is covered
    place >= 0 and offset < self._ends[place] -> False
Cover.has: a record on the watermark is covered
    offset < self.next_offset -> offset <= self.next_offset
HeldOutputs.take: outputs that are not needed any more are sent
    dropped, outputs.parked = _dropped(outputs.parked) -> dropped = []
    by test_an_output_that_is_decided_on_while_outputs_are_taken_keeps_its_record_from_a_commit
Refusals.may_go: a record is committed without its output and without the dead letter instead
    not source.is_dropped and ->
    by test_an_output_that_is_decided_on_while_outputs_are_taken_keeps_its_record_from_a_commit
HeldOutputs.take: all that is held is taken
    divided = coverage.divide(waiting) -> divided = waiting, []
HeldOutputs.take: what is put meanwhile goes before what was held
    outputs.parked += outputs.take(SLICE) -> outputs.parked = outputs.take(SLICE) + outputs.parked
HeldOutputs.take_back: aborted outputs are put back behind newer ones
    [*self._without_over(outputs.sent, gone), *outputs.parked]
    -> [*outputs.parked, *self._without_over(outputs.sent, gone)]
HeldOutputs.take_back: aborted outputs are dropped
    [*self._without_over(outputs.sent, gone), *outputs.parked] -> outputs.parked
HeldOutputs._without_over: outputs of an ended epoch come back
    if self._over.isdisjoint(set(map(itemgetter(EPOCH), flat[SOURCE::PARTS]))): -> if True:
    by test_what_ends_while_it_is_under_way_does_not_come_back
HeldOutputs.committed: committed outputs are put back
    outputs.sent = [] -> outputs.parked, outputs.sent = [*sent, *outputs.parked], []
HeldOutputs.take: what is not decided is sent by older positions
    self.has_undecided = not all(self.refusals.may_go(sources[place]) for place in self.refused_before)
    -> self.has_undecided = False
    by first=96
TransactionLoop._transact: what was refused before is suspected among others again
    if self._held.refused_before: -> if False:
    by test_a_refused_output_is_tried_again_when_its_judge_says_so
TransactionLoop._find_refused: what was refused among others counts as refused alone
    while named and most > 1: -> while False:
    by test_a_refused_output_leaves_with_its_record_and_the_rest_goes
TransactionLoop._find_refused: what was refused in a part counts as refused alone
    named = self._try(request, [*suspects], most) -> named, most = self._try(request, [*suspects], most), 1
    by test_one_of_many_costs_three_transactions
TransactionLoop._find_refused: batches that are too large stay so large
    any(error.is_too_large for error in suspects.values()) -> False
    by test_a_topic_that_takes_smaller_batches_gets_smaller_ones
TransactionLoop._find_refused: what is refused together is tried so for ever
    self._was_together or -> False or
    by test_outputs_that_are_refused_together_twice_get_smaller_batches
TransactionLoop._try: a try is committed
    self._abort(client, trial) -> client.commit_transaction(1.0)
    by test_just_the_refused_ones_are_found_and_each_key_keeps_its_order
Handing.try_out: a try ends before its outputs are taken
    while len(self._client): -> while False:
    by test_a_refused_output_leaves_with_its_record_and_the_rest_goes
TransactionalCommits._request: who is no member commits
    if not is_member(metadata): -> if False:
TransactionLoop._send_and_commit: metadata are taken late, and a revoke does not wait for its transaction
    (offsets, request.metadata, CALL_S) -> (offsets, client.metadata_now(), CALL_S)
    & MemberTransactions.begin_awaited
    self._awaited[request] = on_answer
    -> self._answer(on_answer, positions, KafkaError(KafkaError._TIMED_OUT))
    & TransactionalHandover._end_revoke
    self._member.transactions.end(list(self.leaving.values())) -> pass
TransactionLoop._send_and_commit: metadata are taken late, and a transaction of lost partitions goes on
    (offsets, request.metadata, CALL_S) -> (offsets, client.metadata_now(), CALL_S)
    & MemberTransactions.lost
    self.commits.end_unwanted(0.0) -> pass
MemberTransactions.begin_awaited: a revoke returns before its transaction has ended
    self._awaited[request] = on_answer
    -> self._answer(on_answer, positions, KafkaError(KafkaError._TIMED_OUT))
TransactionalHandover._is_settled: outputs are dropped before the last commit of their epoch
    return self -> self._member.transactions.end(list(self.leaving.values()))\n    return self
TransactionalHandover._take_assignment: offsets of a transaction that is not over are read
    if any(map(transactions.is_unstable, [one for one in new if one not in self._old])): -> if False:
TransactionLoop._insist: a commit that timed out counts as aborted
    if error.txn_requires_abort() -> if request.is_committing or error.txn_requires_abort()
    by test_a_call_that_times_out_goes_on_where_it_was call="commit"
TransactionLoop._transact: a commit whose producer is lost counts as aborted
    if not (request.is_committing and self._resolve(request)): -> if True:
TransactionLoop._insist: a producer whose call failed goes on
    self._producer.is_disturbed |= error.code() != ClientCode.TIMED_OUT -> pass
    by test_a_producer_whose_call_failed_has_no_further_transaction call="commit"
TransactionLoop._resolve: a commit whose producer is lost counts as committed
    lambda: self._group.were_made(request.changed) -> lambda: True
GroupCommits._has: a commit is found where another's stands
    bool(ours) and ours <= same -> bool(ours)
GroupCommits._has: a commit is found by what an earlier one had of it
    bool(ours) and ours <= same -> bool(ours & same)
    by test_a_part_is_not_the_whole
GroupCommits._has: a commit that is found where the partition was lost is forgotten
    self.note({partition: positions[partition] for partition in same}) -> pass
    by test_where_a_partition_was_lost_meanwhile_its_next_epoch_knows_the_commit
GroupCommits.were_made: the first answer of a coordinator counts
    return self._has(positions)
    -> return False
    by test_a_commit_that_the_first_answer_lacks_is_asked_for_again
GroupCommits.is_old: an older commit than one that was made begins an epoch
    < OLD_S -> < 0.0
GroupCommits.is_old: an older commit than one that was read begins an epoch
    if found: -> if False:
    by first=52
GroupCommits.note: a commit that was made is not remembered
    self._newest.update(positions) -> pass
MemberTransactions.must_wait: an epoch begins while its last commit is not decided
    if partition in self._carrier.undecided(): -> if False:
    by first=481, way="short-texts", old_answer_share=1.0
Refusals.lowest: a refused output waits for no decision
    if self.waits(one) -> if False
    by test_a_refused_output_leaves_with_its_record_and_the_rest_goes
TransactionSaver.position: a commit says less than the one before
    return position if says(position, kept) else committed -> return position
    & TransactionSaver._text
    if not (kept and written.dropped_offsets): -> if True:
    by way="short-texts"
TransactionSaver._bound_by: what an aborted commit said stays known above a refused output
    tuple((start, min(end, lowest)) for start, end in known.finished if start < lowest) -> known.finished
    by way="short-texts"
TransactionSaver._bound_by: what an aborted commit said is said again
    self._last.pop(place, None) -> pass
    by way="short-texts", first=24
ProgressSaver.refused: a text that was refused is offered again
    self._last.clear() -> pass
    by test_a_short_text_is_not_refused_along_with_a_long_one
TransactionSaver._trims_to: where batches end is forgotten before that is committed
    min(next_offset, committed.next_offset if committed else 0) -> next_offset
    by first=39
"""

# What waits: retries, holds, pauses and letters by hand, until when, and for which records.
WAITING = r"""
WaitingKeys.retry_due: a retry comes early
    due_s <= now_s -> True
    by test_a_retry_runs_again_before_its_followers_and_not_earlier
WaitingKeys.decide: what is on hold is skipped
    isinstance(decision, HoldHead) -> False
    by test_what_a_held_key_keeps_counts_in_the_limits_of_its_partition
WaitingKeys.decide: a failed call is not counted
    attempts.failed += 1 -> pass
    by test_each_way_to_wait_has_its_word
WaitingKeys._end_first: attempts of what has ended are kept
    self.router.attempts.pop(id(entry[MESSAGE]), None) -> pass
Inboxes.receive: what is skipped for its age is not counted
    self._count_passed(epoch, len(messages) - len(places), "skipped_records") -> pass
    by test_what_is_skipped_for_its_age_is_counted
WaitingKeys._continue: a key goes on though an earlier record was dead-lettered
    if held.after != "continue": -> if False:
WaitingKeys.arrived: a new record does not follow its key's letter
    self._continue(held) -> pass
WaitingKeys.resume_key: a resume lets a failed record go
    held.decision is PAUSED and held.ticket is None -> held.ticket is None
    by test_a_pause_wins_over_a_time_and_a_time_over_a_resume
WaitingKeys._continue: a retry ends a pause
    elif held.is_paused: -> elif False:
    by test_a_pause_wins_over_a_time_and_a_time_over_a_resume
Piles.stop: a stop leaves what waits in its inboxes
    taken = inbox.take_back() -> taken: list[Entry] = []
    by test_a_handler_that_is_stopped_stays_so
FlowControl.to_resume: flow control resumes what is paused by hand
    and epoch.partition not in self.by_hand ->
    by test_what_is_paused_by_hand_goes_on_by_hand_or_in_its_next_epoch
FlowControl.forget: a new epoch is paused by hand
    self.by_hand.discard(partition) -> pass
    by test_what_is_paused_by_hand_goes_on_by_hand_or_in_its_next_epoch
Held.is_by_hand: letters by hand are counted, not named
    any(self.q[place] is one for one in self.by_hand) -> bool(self.by_hand)
    by test_letters_by_hand_are_of_the_records_that_were_named
WaitingKeys._continue: a letter by hand takes the next record along
    is_open and held.is_by_hand(0) -> is_open and held.by_hand
    by test_nothing_of_a_key_goes_beside_its_running_record
"""

MUTANTS = [
    *(mutant for text in (DRAINS, FLOW, POSITIONS, PROGRESS) for mutant in table(text, seeds, *IN)),
    *table(TRANSACTIONS, partial(seeds, way="transactions"), *IN),
    *table(WAITING, histories, *IN),
]
