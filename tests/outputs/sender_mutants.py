"""Guards of the sender, each taken out once: random histories must notice, or a test."""

from __future__ import annotations

from ehkafka.outputs import (
    aside,
    batch,
    known_keys,
    one_producer,
    output,
    reports,
    round_robin,
    sender,
    standing,
    unacknowledged,
)
from tests.kit.mutant import table
from tests.outputs import test_known_keys, test_sender_rules, test_sender_turns
from tests.outputs.sender_world import histories

IN = (
    aside,
    batch,
    known_keys,
    one_producer,
    output,
    reports,
    round_robin,
    sender,
    standing,
    unacknowledged,
    test_known_keys,
    test_sender_rules,
    test_sender_turns,
)

MUTANTS = table(
    r"""
KnownKeys.may_go: a second output of a key goes with the first one
    (output.topic, place) in self._first -> False
OutputSender._sort_each: what was not taken keeps its key waiting
    known.acknowledged(output, None) -> pass
OutputSender._sort_each: what is behind a refused one passes it
    if self._reports.refused: -> if False:
OutputSender._is_held_up: what is behind a refused one passes it
    or bool(self._reports.refused) -> or False
    by test_what_is_behind_a_refused_one_is_not_handed_over
OutputSender._sort: what is of unknown keys is lost
    return self._sort_each(unknown) -> return []
OutputSender._hand_lines: all partitions have a batch on their way
    range(self._round_robin.room(self._producer.batches_max, now_s)) -> range(99)
    by test_so_many_partitions_have_one_on_its_way_at_most
OutputSender._hand_batch: a batch is larger than a request
    fitting(flat, room, self._producer.batch_bytes) -> flat[: PARTS * room]
    by test_a_batch_fits_into_one_request
OutputSender._hand_batch: the last one's report stands for several requests
    each=is_each -> each=False
    by test_where_each_message_goes_in_a_request_of_its_own_each_is_reported
OutputSender._hand_batch: where the client refuses one, what is behind it is lost
    outputs.put_back(self._sort_each(left, alone=True)) -> self._sort_each(left, alone=True)
OutputSender._hand_batch: where the client refuses one, all go together again
    self._sort_each(left, alone=True) -> left
OutputSender._let_go: keys are forgotten while outputs of theirs wait
    self._sort_again() -> pass
KnownKeys.forget_half: the next output of a key goes elsewhere than what a client has
    self._known.setdefault(output.topic, {})[output.place] = partition -> pass
    by test_the_key_of_what_a_client_has_is_not_forgotten
OutputSender._forget_old: keys are forgotten while outputs of theirs wait
    self._sort_again() -> pass
    by test_keys_that_are_forgotten_wait_in_no_line
OutputSender._hand_over: the intake does not see that the sender is behind
    lines.are_long(parts, now_s) or ->
    by test_what_waits_beyond_some_turns_shows_that_the_sender_is_behind
RoundRobin.are_long: what waits for partitions that stand holds up all others
    chain(self._waiting, self._answering(now_s)) -> self._lines
    by test_what_waits_for_partitions_that_stand_holds_up_no_others
RoundRobin.add: what waits behind others of its partition is lost
    its += flat -> pass
RoundRobin.add: a partition has several batches on their way
    if line not in self._under_way: -> if True:
    by test_a_partition_has_one_batch_on_its_way
RoundRobin._answering: one that does not answer holds up others
    now_s - since_s < TURN_S -> True
    by test_so_many_partitions_have_one_on_its_way_at_most
RoundRobin.next: what ended epochs have left is no line's end
    del self._lines[line] -> pass
    by test_what_waits_when_its_epoch_ends_lets_its_partition_go_on
RoundRobin.handed: what is left over is lost
    self._lines[line] = left -> del self._lines[line]
RoundRobin.handed: what could not go waits for ever
    self._waiting.appendleft(line) -> pass
RoundRobin.acknowledged: a partition's turn never comes again
    self._waiting.append(line) -> pass
RoundRobin.clear: what the last client had on its way holds up the next one
    self._under_way.clear() -> pass
KnownKeys.forget_old: a day later keys are still known
    self._known_before = {} -> pass
    by test_a_day_later_no_key_is_known
OutputSender._hand_over: what is left over is lost
    outputs.put_back(left) -> pass
OutputSender._sort: unknown keys go at once
    self._known.partitions(flat[2], flat[4::PARTS]) -> [ord(key or b"a") % 3 for key in flat[4::PARTS]]
    by test_the_second_output_of_a_key_waits_for_the_first
OutputSender._sort: outputs of ended epochs go out
    or any(epoch.ended for epoch in {source[EPOCH] for source in sources})\n ->
    by first=78
OutputSender._sort_each: outputs of ended epochs go out one by one
    if has_ended(output.source): -> if False:
OutputSender._sort_each: what follows a refused output passes it
    elif self._aside.takes(output): -> elif False:
OutputSender._sort_each: sources of dropped outputs hear nothing
    self._gone.append(output) -> pass
OutputSender._sort_each: a full queue skips one
    flat[number * PARTS :] -> flat[(number + 1) * PARTS :]
Reports.take: what is in doubt counts as written
    (self._is_doubted(line) or message.offset() is None) -> False
    by test_what_is_in_doubt_is_not_acknowledged
Reports.take: what follows one in doubt counts
    self._is_doubted(line) or ->
Reports._is_doubted: what follows a refused one counts
    line in self._doubted -> False
    by test_no_answer_counts_in_a_partition_where_something_was_refused
Reports._is_doubted: after a refusal nothing counts
    and not self.refused ->
    by test_no_answer_counts_in_a_partition_where_something_was_refused
Reports._is_doubted: what follows a refused one that no report names counts
    (self._producer.has_ended and not self.refused) -> False
    by test_no_answer_counts_after_a_client_has_ended_for_what_no_report_names
OutputSender._renew: what the last answers acknowledge is sent again
    self._let_go() -> pass
Reports.clear: the next client's answers do not count
    self._doubted.clear() -> pass
    by test_no_answer_counts_after_a_client_has_ended_for_what_no_report_names
OutputSender._let_go: what waits for its key's first answer waits for ever
    outputs.put_back(outputs.lines.pop((output.topic, output.place), [])) -> pass
OutputSender._let_go: its bytes stay
    outputs.let_go([*chain.from_iterable(batch.flat for batch, _ in written)]) -> pass
OutputSender._let_go: its source hears nothing
    source.acknowledged(message) -> pass
OutputSender._let_go: without producer ids several outputs of a key are on their way
    None if self._producer.is_plain else ->
    by test_without_producer_ids_one_output_of_a_key_is_on_its_way
OutputSender._sort: one report stands for outputs that are each to be reported
    alone=not self._at_once -> alone=False
    by test_where_each_is_reported_each_is_a_batch
Reports.take: throttled reports count as refusals
    elif error.code() in self._busy: -> elif False:
    by test_what_is_throttled_goes_not_alone
Reports.take: a refused output is sent with others for ever
    self.refused[batch] = refused_error(error) -> pass
OutputSender._purge: the client keeps what ended epochs have left
    self._renew(is_fault=self._producer.is_lost) -> pass
OutputSender._purge: the poll thread hears nothing
    one.set() -> pass
OutputSender._purge: sources of what went alone hear nothing
    report_gone(dropped) -> pass
    by seeds=500
OutputSender._renew: keys that the last client had are known to the next
    self._known.forget() -> pass
OutputSender._renew: what waits in lines is known to the next client
    self._sort_again() -> pass
OutputSender._renew: what its client had is lost
    outputs.put_back(again) -> pass
OutputSender._renew: what was refused goes with others
    or (output.group is None and id(output.source) in sources) -> or False
    by test_a_refused_output_without_a_key_goes_alone
OutputSender._renew: later ones of a refused one's group pass it
    output.group in groups or ->
OutputSender._renew: sources of dropped outputs hear nothing
    outputs.without_ended(batch, self._gone) -> outputs.without_ended(batch, [])
Aside.takes: later ones go before earlier ones
    append(output) -> appendleft(output)
Aside.drop_ended: the producer keeps what ended epochs have left
    self._renew(self._producer, is_fault=False) -> pass
Aside._renew: what a producer did not return is never sent again
    aside.is_under_way = False -> pass
    by test_a_second_producer_that_returns_nothing_at_its_purge_loses_no_output
Aside.drop_ended: what is behind a dropped one has no turn
    self._go_on_with(place, kept) -> self._outputs.aside[place] = kept
Aside.drop_ended: the bytes of what is dropped stay
    self._outputs.let_go(output) -> pass
Aside.go_on: a judge's answer counts for nothing
    self._end(place, aside) -> pass
Aside.go_on: what is with a judge is sent
    or aside.is_with_judge -> or False
    by test_what_is_with_a_judge_is_not_sent
Aside.go_on: what is on its way is sent again
    aside.is_under_way or ->
Aside._opened: a lost producer stays
    self._renew(self._producer, is_fault=True) -> pass
    by test_a_lost_second_producer_is_followed_by_another
Aside._answered: an answer for what is not its turn counts
    if self._set_aside.get(place) is not aside: -> if False:
    by test_a_refusal_of_an_ended_epoch_is_not_judged
Aside._answered: what has its answer stays
    self._end(place, aside) -> pass
Aside._answered: what has its answer is still on its way
    aside.is_under_way = False -> pass
Aside._answered: its source hears nothing
    aside.output.source.acknowledged(message) -> pass
Aside._answered: consequences are judged
    elif error.code() in CONSEQUENCES or ( -> elif (
Aside._answered: a topic that was made anew is judged
    error.code() == ClientCode.UNKNOWN_PARTITION and aside.output.partition == ANY_PARTITION -> False
    by first=186
Aside._answered: a throttled try counts
    elif error.code() in self._busy: -> elif False:
    by seeds=500
Aside._refused: its source is not asked
    output.source.takes_refusals -> False
    by seeds=500
Aside._refused: what its source has taken back is sent
    if one.source is not output.source) -> if one is not output)
    by first=87
Aside._refused: tries are not counted
    aside.tries += 1 -> aside.tries = 1
Aside._go_on_with: what is behind accepted suspects goes one by one
    last is not None and -> False and
    by test_what_is_behind_an_accepted_suspect_goes_with_others_again
Aside._go_on_with: what is behind accepted suspects is lost
    self._outputs.put_back(list(chain.from_iterable(queue))) -> pass
Aside._go_on_with: suspects go with others
    and not any(one is last for one in queue): -> and queue:
    by test_what_is_behind_an_accepted_suspect_goes_with_others_again
Aside._refused: what is behind a refused one goes with others
    self._suspects.pop(place, None) -> pass
    by test_what_is_behind_an_accepted_suspect_goes_with_others_again
Aside._end: a judge's answer ends another output
    if self._set_aside.get(place) is not aside: -> if False:
Aside._end: its bytes stay
    self._outputs.let_go(aside.output) -> pass
Aside._go_on_with: a group that is empty stays
    if not queue: -> if False:
Aside._go_on_with: the next one has the last one's turn
    queue and queue[0] is self._set_aside[place].output -> queue
Aside._go_on_with: what waits behind a kept one waits, too
    self._outputs.kept.discard(place) -> pass
Aside.go_on: what is kept is waited for
    self._outputs.kept.add(place) -> pass
    by test_what_waits_for_the_next_start_is_not_waited_for
Aside.go_on: a late answer keeps what is not there any more
    and self._set_aside.get(place) is aside -> and True
    by test_what_is_kept_after_its_epoch_has_ended_is_not_counted
Unacknowledged.waiting_epochs: what is kept is waited for
    with_kept=False -> with_kept=True
    by test_what_waits_for_the_next_start_is_not_waited_for
Unacknowledged.take: bytes are not counted
    self._bytes += size -> pass
Unacknowledged.put_back: in another order
    reversed(flat) -> flat
Unacknowledged.put_back: its bytes stay
    self._bytes -= size -> pass
Unacknowledged.end: sources hear nothing
    report_gone(dropped) -> pass
Unacknowledged.without_ended: its bytes stay
    self.let_go(output) -> pass
Unacknowledged.sources: what waits in lines may be committed
    (self.sent, self.parked, *self.lines.values()) -> (self.sent, self.parked)
Unacknowledged.end: what waits in lines goes out
    self.parked, *self.lines.values()): -> self.parked):
Unacknowledged.sources: what is aside may be committed
    [output.source for output in aside] -> []
Unacknowledged.sources: what a client has may be committed
    (batch.flat[SOURCE::PARTS] for batch in batches) -> ()
Unacknowledged.end: what clients have is not looked at
    any(output.has_ended for output in with_clients) -> False
Unacknowledged.lowest: the highest is returned
    lowest.get(epoch, offset) >= offset -> True
Unacknowledged.put: a record of an ended epoch is taken, or one of a stopped app
    if self.is_closed or has_ended(source): -> if False:
OutputBatch._send_at_once: what a full queue has not taken counts as sent
    self.flat = []  # until it is known to be with the client -> pass
OutputBatch._send_each: what a full queue has not taken counts as sent
    self.flat = flat[: self.left * PARTS] -> pass
OutputBatch._send_each: the first report stands for all
    self.left += 1 -> self.left = 1
    by test_outputs_with_headers_are_acknowledged_by_the_last_report
OutputSender._hand_batch: what went before a refused one is not noted
    if batch.flat: -> if not left:
BatchSource.has_ended: a batch ends with the first of its epochs
    all(entry[EPOCH].ended -> any(entry[EPOCH].ended
    by test_an_output_of_a_batch_is_sent_while_one_of_its_epochs_goes_on
""",
    histories,
    *IN,
)
