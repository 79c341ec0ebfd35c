"""The sender: hands what was put to a client, on `ehkafka-outputs`, and lets go of what is acknowledged.

One thread sends, polls and decides, so that order needs no lock: what was put earlier goes out earlier. It
goes in batches, each for one partition and with one report; partitions take turns (`round_robin`). A refused
output ends its client (see `properties`). The next client gets all outputs that are not acknowledged, in
their old order, except those of the refused batch's keys: `aside` sends these.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError

from ehkafka.lanes.inbox import EPOCH
from ehkafka.outputs.answers import (
    CONSEQUENCES,
    busy_codes,
    produce_one,
    refused_error,
)
from ehkafka.outputs.aside import BUSY_POLL_S, Aside
from ehkafka.outputs.batch import ONE_BY_ONE, OutputBatch, SomeSentError, fitting, smaller_batches
from ehkafka.outputs.encoding import ANY_PARTITION
from ehkafka.outputs.known_keys import KnownKeys
from ehkafka.outputs.one_producer import ID_S, LAST_ANSWERS_S
from ehkafka.outputs.output import PARTS, SOURCE, OutputRefusedError, Source, has_ended, outputs_of
from ehkafka.outputs.properties import BATCH_OUTPUTS_MAX, QUEUE_MESSAGES
from ehkafka.outputs.reports import Reports
from ehkafka.outputs.round_robin import RoundRobin
from ehkafka.outputs.unacknowledged import report_gone
from ehkafka.records.client_codes import ClientCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.output import Output
    from ehkafka.outputs.round_robin import Line
    from ehkafka.outputs.unacknowledged import Unacknowledged

# Outputs that are sorted at once, with the lock held; and outputs that may wait for their turns.
SLICE: Final = 1_000
LINES_MAX: Final = 20_000
IDLE_WAIT_S: Final = 0.5


class OutputSender:
    """Owns both producers. Other threads call `start`, `end`, `wake` and `stop`; its own does the rest."""

    def __init__(
        self,
        outputs: Unacknowledged,
        producer: OneProducer,
        make_second: Callable[[], OneProducer],
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        busy: Collection[int] = busy_codes(is_event_hubs=False),
        at_once: bool = True,
        batch_outputs: int = BATCH_OUTPUTS_MAX,
        takes_turns: bool = False,
        each_turn: Callable[[], object] = bool,
        name: str = "ehkafka-outputs",
    ) -> None:
        """`clock` is the one by which a refused output waits for its next try.

        `busy` are errors by which the broker throttles: the same goes out again later. `at_once`: one report
        may stand for a batch, see `properties.may_report_at_once`, else each output has its own.
        `batch_outputs` go in one request at most. `takes_turns`: keys wait for answers, see `round_robin`.
        `each_turn` is called by its thread, whose `name` this is.
        """
        self.outputs = outputs
        self._producer = producer
        self._at_once = at_once
        self._batch_outputs = batch_outputs
        self._wake = threading.Event()
        self._ends_s: float | None = None
        # One for each `end` of the poll thread: set when no client has outputs of ended epochs any more.
        self._purges: deque[threading.Event] = deque()
        # The sender's thread only.
        self._aside = Aside(outputs, make_second, emit=emit, wake=self._wake.set, clock=clock, busy=busy)
        self._known = KnownKeys()
        self._reports = Reports(outputs, producer, busy)
        self._round_robin = RoundRobin(outputs.lines, are_taken=takes_turns)
        # The client's queue is full.
        self._is_full = False
        # Outputs of ended epochs: their sources hear of it later, without the lock.
        self._gone: list[Output] = []
        self._each_turn = each_turn
        self._thread = threading.Thread(target=self._main, args=(on_death,), name=name, daemon=True)
        outputs.wake = self._wake.set

    # -- other threads ---------------------------------------------------------------------------------

    def start(self, id_s: float | None = ID_S) -> None:
        """Open the producer, wait up to `id_s` for its id, and start the thread; None: the thread opens it.

        Raises `ConfigurationError` or `EndpointError`.
        """
        if id_s is not None:
            self._producer.start(id_s)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether its thread still runs."""
        return self._thread.is_alive()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return thread is self._thread

    @property
    def reason(self) -> str | None:
        """Why outputs are not acknowledged, as far as that is known. Any thread."""
        return self._producer.problem or self._producer.standing_problem or self._aside.problem

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it."""
        reason, count = self.reason, self.outputs.count()
        return f"the broker has not acknowledged {count} outputs: {reason}" if reason and count else None

    def end(self, timeout_s: float) -> None:
        """Send nothing more for epochs that have ended. Poll thread; waits for that, at most `timeout_s`.

        Otherwise a client's queue could write outputs behind those of the partition's next owner.
        """
        if not self.outputs.end() or not self._thread.is_alive():
            return
        done = threading.Event()
        self._purges.append(done)
        self._wake.set()
        done.wait(timeout_s)

    def stop(self, timeout_s: float) -> int:
        """Stop within so many seconds; return how many outputs are not acknowledged."""
        self._ends_s = time.monotonic() + timeout_s
        self.outputs.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s + 1.0)
        return self.outputs.count()

    # -- the thread ------------------------------------------------------------------------------------

    def _main(self, on_death: Callable[[BaseException], None]) -> None:
        try:
            while self._ends_s is None or (self.outputs.is_under_way() and time.monotonic() < self._ends_s):
                self._turn()
        except BaseException as error:  # otherwise outputs would wait without end, and without an error
            on_death(error)
        finally:
            try:
                self._producer.give_up(0.0, 0.1)
                self._let_go()
                self._aside.close()
            finally:
                while self._purges:
                    self._purges.popleft().set()

    def _turn(self) -> None:
        producer, outputs = self._producer, self.outputs
        if self._purges:
            self._purge()
        if producer.is_lost or self._reports.is_throttled or self._reports.refused:
            self._renew(is_fault=True)
        elif self._known.is_old:
            self._forget_old()
        if producer.client is None:
            producer.open_when_due()
        if producer.client is not None:
            self._hand_over()
        self._serve(BUSY_POLL_S if outputs.batches else 0.0)
        if self._gone:
            gone, self._gone = self._gone, []
            report_gone(gone)
        self._aside.go_on(waits=not outputs.batches)
        self._each_turn()
        if not (outputs.batches or producer.is_lost):
            self._sleep()

    def _sleep(self) -> None:
        outputs = self.outputs
        outputs.sleeps = True
        if not outputs.added or self._is_full or self._producer.client is None:
            self._wake.wait(self._patience_s())
        outputs.sleeps = False
        self._wake.clear()

    def _patience_s(self) -> float:
        if self._purges or self._aside.has_decisions or self._ends_s is not None:
            return BUSY_POLL_S
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        return BUSY_POLL_S if self._aside.is_busy or self._is_full else IDLE_WAIT_S

    # -- handing over ----------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Hand over what may go: first what has waited for its turn, then what is new."""
        outputs, self._is_full, now_s = self.outputs, False, time.monotonic()
        self._hand_lines()
        # The rest stays in `added`: its length shows the intake that the sender is behind.
        lines, parts = self._round_robin, LINES_MAX * PARTS
        while outputs.added and not (lines.are_long(parts, now_s) or self._is_held_up()):
            with outputs.lock:
                taken = outputs.take(SLICE)
                try:
                    left = self._sort(taken)
                except BaseException:  # the run ends and commits once more: each output must be in a list
                    outputs.put_back(taken)
                    raise
                outputs.put_back(left)
                self._is_full = bool(left)
                outputs.note_room()
            self._hand_lines()
            if outputs.added:
                self._serve(0.0)

    def _is_held_up(self) -> bool:
        # Otherwise outputs behind a refused one could be written before it.
        return self._is_full or bool(self._reports.refused) or self._producer.is_lost

    def _sort(self, flat: list[Any]) -> list[Any]:
        """Let outputs wait for their partitions' turns, go alone, or aside; return what could not go."""
        if not flat:
            return flat
        sources, topics = flat[SOURCE::PARTS], dict.fromkeys(flat[2::PARTS])
        if len(topics) > 1:
            # Each topic's outputs by themselves: outputs of two topics have no order.
            by_topic: dict[str, list[Any]] = {topic: [] for topic in topics}
            for start in range(0, len(flat), PARTS):
                by_topic[flat[start + 2]] += flat[start : start + PARTS]
            return [*chain.from_iterable(map(self._sort, by_topic.values()))]
        if (
            not self._at_once
            or set(flat[6::PARTS]) != {ANY_PARTITION}
            or any(epoch.ended for epoch in {source[EPOCH] for source in sources})
        ):
            return self._sort_each(flat, alone=not self._at_once)
        by_partition: dict[int | None, list[Any]] = {}
        partitions = self._known.partitions(flat[2], flat[4::PARTS])
        for partition, start in zip(partitions, range(0, len(flat), PARTS), strict=True):
            its = by_partition.get(partition)
            if its is None:
                by_partition[partition] = flat[start : start + PARTS]
            else:
                its += flat[start : start + PARTS]
        # Keys that have outputs in `aside` are among these: `_renew` forgets all keys when it adds them.
        unknown = by_partition.pop(None, [])
        for partition, its in by_partition.items():
            self._round_robin.add((flat[2], partition), its)
        return self._sort_each(unknown)

    def _sort_each(self, flat: list[Any], *, alone: bool = False) -> list[Any]:
        """Sort outputs one by one. `alone`: none waits for the turn of its partition."""
        outputs, known = self.outputs, self._known
        for number, output in enumerate(outputs_of(flat)):
            if has_ended(output.source):
                outputs.let_go(output)
                self._gone.append(output)
            elif self._aside.takes(output):
                pass
            elif (partition := known.partition(output)) is not None and not alone:
                self._round_robin.add((output.topic, partition), list(output))
            elif partition is None and not known.may_go(output):
                outputs.lines.setdefault((output.topic, output.place), []).extend(output)
            elif not self._hand_one(output, partition):
                known.acknowledged(output, None)  # else its key would wait for an output that was never sent
                return flat[number * PARTS :]
            if self._reports.refused:
                return flat[(number + 1) * PARTS :]
        return []

    def _hand_lines(self) -> None:
        """Hand over a batch for each partition whose turn it is."""
        outputs, now_s = self.outputs, time.monotonic()
        for _ in range(self._round_robin.room(self._producer.batches_max, now_s)):
            if self._is_held_up():
                break
            with outputs.lock:
                line = self._round_robin.next()
                if line is None:
                    break
                self._hand_batch(line, now_s)
                outputs.note_room()

    def _hand_batch(self, line: Line, now_s: float) -> None:
        """Hand over what waits for a partition: as much as a request takes, and the client has room for."""
        outputs, client, flat = self.outputs, self._producer.client, self.outputs.lines[line]
        room = min(self._batch_outputs, max(0, QUEUE_MESSAGES - len(client)))
        batch = OutputBatch(fitting(flat, room, self._producer.batch_bytes), self._reports.take, line=line)
        has_failed = False
        try:
            is_each = self._producer.batch_bytes == ONE_BY_ONE
            self._is_full = bool(batch.send(client, line[1], each=is_each)) or not room
        except SomeSentError:
            # No report will tell whether they are written: all are sent again.
            why = "the client took only a part of a batch"
            self._producer.failed(KafkaError(ClientCode.FATAL, why))
        except Exception:  # of any kind: the output that caused it raises it again
            has_failed = True
        # First: outputs that are handed over from here on are later.
        if batch.flat:
            outputs.batches[batch] = None
        left = flat[len(batch.flat) :]
        if has_failed:
            outputs.lines[line] = left  # until each is in another list
            outputs.put_back(self._sort_each(left, alone=True))
            left = []
        self._round_robin.handed(line, left, now_s if batch.flat else None)

    def _hand_one(self, output: Output, partition: int | None) -> bool:
        """Hand one over, or note that it is refused; False: there is no room, or the client is lost.

        `partition` is that of its key, if that is known.
        """
        is_first = partition is None and output.place is not None
        batch = OutputBatch(output, self._reports.take, is_first=is_first)
        partition = output.partition if partition is None else partition
        why = produce_one(self._producer.client, *output[2:6], partition, batch)
        if isinstance(why, OutputRefusedError):
            self._reports.refused[batch] = why
        elif why is not None and why.code() == ClientCode.QUEUE_FULL:
            return False
        elif why is not None and why.code() in CONSEQUENCES:
            self._producer.failed(why)
            return False
        elif why is not None:
            self._reports.refused[batch] = refused_error(why)
        batch.left = 1
        self.outputs.batches[batch] = None
        return True

    def _serve(self, timeout_s: float) -> None:
        self._producer.serve(timeout_s)
        self._let_go()

    def _let_go(self) -> None:
        """Let go of all that is written, at once: workers that wait for room wake once."""
        if not self._reports.written:
            return
        written, self._reports.written = self._reports.written, []
        outputs = self.outputs
        with outputs.lock:
            for batch, message in written:
                del outputs.batches[batch]
                if batch.line is not None:
                    self._round_robin.acknowledged(batch.line)
                elif batch.is_first:
                    [output] = batch
                    # Without producer ids two outputs of a key have no order: each one counts as the first.
                    partition = None if self._producer.is_plain else message.partition()
                    self._known.acknowledged(output, partition)
                    outputs.put_back(outputs.lines.pop((output.topic, output.place), []))
            outputs.let_go([*chain.from_iterable(batch.flat for batch, _ in written)])
            if self._known.is_full:
                self._known.forget_half(chain.from_iterable(outputs.batches))
                self._sort_again()
        for batch, message in written:
            for source in batch.flat[SOURCE::PARTS]:
                if isinstance(source, Source):
                    source.acknowledged(message)

    def _forget_old(self) -> None:
        if self._known.forget_old(self.outputs.batches):
            self._renew(is_fault=False)
        else:
            with self.outputs.lock:
                self._sort_again()

    def _sort_again(self) -> None:
        # The partitions of outputs in lines are not known any more: they go in front of all new outputs.
        for flat in self._round_robin.take_out():
            self.outputs.put_back(flat)

    # -- another client --------------------------------------------------------------------------------

    def _purge(self) -> None:
        done, dropped = [self._purges.popleft() for _ in range(len(self._purges))], self._aside.drop_ended()
        under_way = chain.from_iterable(self.outputs.batches)
        # A lost client may have outputs that no batch names.
        if self._producer.is_lost or any(output.has_ended for output in under_way):
            self._renew(is_fault=self._producer.is_lost)
        for one in done:
            one.set()
        report_gone(dropped)

    def _renew(self, *, is_fault: bool) -> None:
        """Close the client; the next one gets all outputs without an answer, before any new one."""
        outputs, aside, refused = self.outputs, self._aside, self._reports.refused
        # First: its last answers may explain more.
        self._producer.give_up(LAST_ANSWERS_S)
        self._let_go()
        too_large = sum(len(batch) for batch, error in refused.items() if error.is_too_large)
        if too_large and aside.took_all(too_large):
            self._producer.batch_bytes = smaller_batches(self._producer.batch_bytes)
        self._producer.renew(is_fault=is_fault and not refused, waits=self._reports.is_throttled)
        with outputs.lock:
            sources = {id(output.source): None for batch in refused for output in batch}
            groups = {output.group for batch in refused for output in batch} - {None}
            again: list[Any] = []
            for batch in outputs.batches:
                for output in outputs.without_ended(batch, self._gone):
                    if output.group in groups or (output.group is None and id(output.source) in sources):
                        aside.add(output, is_suspect=batch in refused)
                    else:
                        again += output
            outputs.batches.clear()
            # What waits in lines is later than what the client had.
            self._sort_again()
            outputs.put_back(again)
            outputs.note_room()
        self._reports.clear()
        self._known.forget()
        self._round_robin.clear()
