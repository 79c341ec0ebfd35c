"""The sender: hands what was put to a client, on `ehkafka-outputs`, and lets go of what is acknowledged.

One thread sends, polls and decides, so that order needs no lock: what was put earlier goes out earlier. The
client reports failures alone. At a *tick* the sender waits until the client has nothing left: then all that
it was handed is acknowledged. Whatever fails ends the client, and the next one is given all that is not
acknowledged once more, in its old order; that one reports each output, until all goes well again.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from functools import partial
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from ehkafka.errors import EhkafkaError
from ehkafka.events import OutputProblem
from ehkafka.lanes.inbox import EPOCH
from ehkafka.outputs.answers import CONSEQUENCES, TAKEN_BACK, busy_codes
from ehkafka.outputs.aside import BUSY_POLL_S, Aside
from ehkafka.outputs.checked import ANY_PARTITION
from ehkafka.outputs.known_keys import KnownKeys
from ehkafka.outputs.one_producer import LAST_ANSWERS_S
from ehkafka.outputs.output import PARTS, SOURCE, Output, Source, outputs_of
from ehkafka.outputs.unacknowledged import OUTPUTS_MAX, tell_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ehkafka.events import Event
    from ehkafka.outputs.one_producer import OneProducer
    from ehkafka.outputs.unacknowledged import Unacknowledged

    # Given what hears of failures, and what tells whether all is to be reported.
    MakeProducer = Callable[[Callable[[KafkaError | None, Any], None], Callable[[], bool]], OneProducer]

TICK_S: Final = 0.25
# A tick takes this share of the time at most, where it need not hurry.
TICK_SHARE: Final = 0.25
# So many at once, with the lock held; and from so many on a tick is due at once.
SLICE: Final = 500
FULL_TICK: Final = OUTPUTS_MAX * 3 // 10
IDLE_WAIT_S: Final = 0.5
TICK_POLL_S: Final = 20e-3
# A tick that has waited so long looks whether some partitions stand.
STANDS_S: Final = 1.0
# How long all must have gone well before the next client reports failures alone.
CALM_S: Final = 5.0


class OutputSender:
    """Owns both producers. `start`, `end`, `hurry` and `stop` from other threads; the rest on its own."""

    def __init__(
        self,
        outputs: Unacknowledged,
        make_producer: MakeProducer,
        make_second: Callable[[], OneProducer],
        *,
        emit: Callable[[Event], None],
        on_death: Callable[[BaseException], None],
        clock: Callable[[], float] = time.monotonic,
        busy: Collection[int] = busy_codes(is_event_hubs=False),
        always_reports: bool = False,
    ) -> None:
        """`clock` is the one by which a refused output waits for its next try.

        `busy` are errors by which the broker throttles: the same goes out again later. `always_reports`: for
        a broker that does not look at sequence numbers, where an answer for one batch says nothing of others.
        """
        self._outputs = outputs
        self._busy = busy
        self._emit = emit
        self._on_death = on_death
        self._always_reports = always_reports
        self._wake = threading.Event()
        self._ends_s: float | None = None
        # Epochs that have ended: each is set once nothing of theirs is with a client. By the poll thread.
        self._purges: deque[threading.Event] = deque()
        # Somebody waits for an acknowledgement. Set by any thread.
        self._hurries = False
        # The sender's thread only.
        self._reports = always_reports
        self._producer = make_producer(self._failed, lambda: self._reports)
        self._aside = Aside(outputs, make_second, emit=emit, wake=self._wake.set, clock=clock, busy=busy)
        self._known = KnownKeys()
        self._numbers = iter(range(1 << 62))
        # What ends this client beside its own errors: something failed; the broker throttles by refusals.
        self._has_failed = self._is_throttled = False
        # What this client was refused, by numbers; some of it, or of what it does not report.
        self._refused: set[int] = set()
        self._has_refused = False
        # What is parked may go now; the client's queue is full; something was handed over in this turn.
        self._unparks = self._is_full = self._has_handed = False
        # Outputs of ended epochs whose sources are to hear of it, without the lock.
        self._gone: list[Output] = []
        # When the last tick ended, and how long it took; when something went wrong last.
        self._ticked_s = self._tick_took_s = 0.0
        self._trouble_s = float("-inf")
        self._thread = threading.Thread(target=self._main, name="ehkafka-outputs", daemon=True)
        outputs.wake = self._wake.set

    # -- other threads ---------------------------------------------------------------------------------

    def start(self, id_s: float | None = None) -> None:
        """Open the producer and start the thread. Raises `ConfigurationError` or `EndpointError`."""
        self._producer.start(*() if id_s is None else (id_s,))
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether its thread still runs."""
        return self._thread.is_alive()

    @property
    def outputs(self) -> Unacknowledged:
        """What it sends."""
        return self._outputs

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that sends."""
        return thread is self._thread

    @property
    def problem(self) -> str | None:
        """What is wrong, while outputs wait for it."""
        problem = self._producer.problem or self._producer.standing_problem or self._aside.problem
        count = self._outputs.count()
        return f"{count} outputs are not acknowledged: {problem}" if problem and count else None

    def hurry(self) -> None:
        """Make a tick at once."""
        if not self._hurries:
            self._hurries = True
            self._wake.set()

    def end(self, timeout_s: float) -> None:
        """Let nothing be sent any more for epochs that have ended. Poll thread; waits so long until it is so.

        Else what is left in a client's queue could come behind what the partition's next owner sends.
        """
        if not self._outputs.end() or not self._thread.is_alive():
            return
        done = threading.Event()
        self._purges.append(done)
        self._wake.set()
        done.wait(timeout_s)

    def stop(self, timeout_s: float) -> int:
        """Stop, at most after so many seconds; return how many outputs are not acknowledged."""
        self._ends_s = time.monotonic() + timeout_s
        self._outputs.close()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s + 1.0)
        return self._outputs.count()

    # -- the thread ------------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            while self._ends_s is None or (self._outputs.count() and time.monotonic() < self._ends_s):
                self._turn()
        except BaseException as error:  # outputs would wait for ever, and nobody would know
            self._on_death(error)
        finally:
            self._producer.give_up(0.0, 0.1)
            self._aside.close()
            while self._purges:
                self._purges.popleft().set()

    def _turn(self) -> None:
        producer, outputs = self._producer, self._outputs
        if self._purges:
            self._purge()
        if self._must_renew:
            self._renew(is_fault=True)
        if producer.client is None:
            self._open_next()
        if producer.client is not None:
            self._hand_over()
        producer.serve(BUSY_POLL_S if outputs.reported else 0.0)
        if self._gone:
            tell_gone(self._gone)
            self._gone = []
        if self._refused:
            self._set_refused_aside()
        self._aside.go_on(waits=not (outputs.sent or outputs.reported))
        if producer.client is not None and not self._must_renew:
            if outputs.sent and self._is_tick_due():
                self._tick()
            self._calm_down()
        self._sleep()

    @property
    def _must_renew(self) -> bool:
        return self._producer.is_lost or self._has_failed or self._is_throttled

    def _sleep(self) -> None:
        outputs = self._outputs
        if self._must_renew or outputs.reported or (self._hurries and outputs.sent):
            return
        if self._has_handed:
            # More comes, perhaps, and is handed over together: each turn has a price.
            self._wake.wait(BUSY_POLL_S)
            self._wake.clear()
            return
        outputs.sleeps = True
        if not outputs.has_new() or self._is_full or self._producer.client is None:
            self._wake.wait(self._patience_s())
        outputs.sleeps = False
        self._wake.clear()

    def _patience_s(self) -> float:
        if self._purges or self._aside.has_decisions or self._ends_s is not None:
            return BUSY_POLL_S
        if self._producer.client is None:
            return min(IDLE_WAIT_S, self._producer.due_s())
        if self._aside or self._is_full or self._unparks:
            return BUSY_POLL_S
        return max(0.0, self._tick_in_s()) if self._outputs.sent else IDLE_WAIT_S

    # -- handing over ----------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Hand over what may go: first what is parked, then what is new."""
        outputs = self._outputs
        self._has_handed = bool(outputs.added)
        self._is_full = False
        if self._unparks:
            self._unparks = False
            with outputs.lock:
                parked, outputs.parked = outputs.parked, []
                left = self._hand_slice(parked)
                # What was parked again is of keys that wait; what is left may go once there is room.
                outputs.parked += left
                self._unparks = self._is_full = bool(left)
                outputs.note_room()
        while not (self._is_full or self._must_renew) and outputs.added:
            with outputs.lock:
                left = self._hand_slice(outputs.take(SLICE))
                outputs.put_back(left)
                self._is_full |= bool(left)
                outputs.note_room()
            if len(outputs.sent) >= FULL_TICK * PARTS:
                break
            self._producer.serve(0.0)

    def _hand_slice(self, flat: list[Any]) -> list[Any]:
        """Hand over, park or set aside some outputs; return those that there is no room for."""
        if not flat:
            return []
        sources, topics = flat[SOURCE::PARTS], set(flat[2::PARTS])
        if set(map(type, sources)) - {tuple}:
            self._hurries = True
        is_plain = (
            not (self._reports or self._aside)
            and len(topics) == 1
            and self._known.are_known(flat[2], flat[4::PARTS])
            and set(flat[6::PARTS]) == {ANY_PARTITION}
            and not any(epoch.ended for epoch in set(map(_epoch_of, sources)))
        )
        return self._hand_all(flat) if is_plain else self._hand_each(flat)

    def _hand_all(self, flat: list[Any]) -> list[Any]:
        """Hand over outputs that may all go at once."""
        produce = self._producer.client.produce
        handed = 0
        try:
            for topic, value, key, headers, partition in zip(
                *(flat[part::PARTS] for part in range(2, PARTS)), strict=True
            ):
                if headers is None:
                    produce(topic, value, key, partition)
                else:
                    produce(topic, value, key, partition, headers=headers)
                handed += PARTS
        except Exception:  # whatever it is: the one output that it is about raises it once more
            self._outputs.sent += flat[:handed]
            return self._hand_each(flat[handed:])
        self._outputs.sent += flat
        return []

    def _hand_each(self, flat: list[Any]) -> list[Any]:
        """Hand over, park or set aside each of some outputs."""
        outputs = self._outputs
        for number, output in enumerate(outputs_of(flat)):
            if output.has_ended:
                outputs.let_go(output)
                self._gone.append(output)
            elif self._aside and self._aside.takes(output):
                pass
            elif not self._known.may_go(output.topic, output.place):
                outputs.parked += output
            elif not self._hand_one(output):
                return flat[number * PARTS :]
        return []

    def _hand_one(self, output: Output) -> bool:
        """Hand one over, or have it refused; False: there is no room, or no client any more."""
        _, _, topic, value, key, headers, partition = output
        given: dict[str, Any] = {} if headers is None else {"headers": headers}
        number = next(self._numbers)
        if self._reports:
            given["on_delivery"] = partial(self._reported, number)
        try:
            self._producer.client.produce(topic, value, key, partition, **given)
        except BufferError:
            return False
        except KafkaException as failed:
            error = failed.args[0]
            if error.code() in CONSEQUENCES:
                self._producer.failed(error)
                return False
            self._refuse(output)
        except Exception:  # headers may hold anything
            self._refuse(output)
        else:
            if self._reports:
                self._outputs.reported[number] = output
            else:
                self._outputs.sent += output
        return True

    def _refuse(self, output: Output) -> None:
        """Take an output that the client itself refuses: a try alone raises the same error."""
        self._known.acknowledged(output.topic, output.place)  # it never went: the next one is the first
        self._aside.add(output, is_held_up=True)
        self._trouble_s = time.monotonic()

    # -- answers ---------------------------------------------------------------------------------------

    def _failed(self, error: KafkaError | None, _message: Any) -> None:
        """Hear that an output has failed whose reports are not asked for. Called inside `poll`."""
        if error is None or error.code() in TAKEN_BACK:
            return
        self._has_failed = True
        if error.code() in CONSEQUENCES:
            self._producer.failed(error)
        elif error.code() in self._busy:
            self._is_throttled = True
            self._producer.failed(error)
        else:
            self._has_refused = True

    def _reported(self, number: int, error: KafkaError | None, message: Any) -> None:
        """Take the report for one output. Called inside `poll`."""
        outputs = self._outputs
        if number not in outputs.reported:
            return  # a later client has it
        if error is None and message.offset() is None:
            # Concluded from a later answer, by sequence numbers that this broker does not look at.
            self._producer.failed(KafkaError(KafkaError._FATAL, _IN_DOUBT))  # noqa: SLF001
        elif error is None:
            with outputs.lock:
                output = outputs.reported.pop(number)
                outputs.let_go(output)
            self._known.acknowledged(output.topic, output.place)
            self._unparks |= bool(outputs.parked)
            self._producer.acknowledged()
            if isinstance(output.source, Source):
                output.source.acknowledged()
        elif error.code() in CONSEQUENCES:
            if error.code() not in TAKEN_BACK:
                self._producer.failed(error)
        elif error.code() in self._busy:
            # Of the output it says nothing, so all goes out again: one by one would be more requests for
            # a broker that wants fewer.
            self._is_throttled = True
            self._producer.failed(error)
        else:
            self._refused.add(number)
            self._has_refused = True

    def _set_refused_aside(self) -> None:
        """Set refused outputs aside; where a later one of a group is under way, by another client."""
        outputs = self._outputs
        self._trouble_s = time.monotonic()
        refused = [outputs.reported[number] for number in sorted(self._refused)]
        groups = {output.group for output in refused} - {None}
        if sum(output.group in groups for output in outputs.reported.values()) > len(refused):
            self._has_failed = True
            return
        with outputs.lock:
            for number, output in zip(sorted(self._refused), refused, strict=True):
                del outputs.reported[number]
                self._known.acknowledged(output.topic, output.place)
                self._aside.add(output)
        self._refused.clear()
        self._has_refused = False
        # What is parked of these groups is later, and earlier than what is new.
        self._unparks = True

    # -- ticks -----------------------------------------------------------------------------------------

    def _is_tick_due(self) -> bool:
        if self._hurries or self._ends_s is not None or len(self._outputs.sent) >= FULL_TICK * PARTS:
            return True
        if self._outputs.is_full or self._outputs.parked or self._aside.are_held_up:
            return True
        return self._tick_in_s() <= 0

    def _tick_in_s(self) -> float:
        return self._ticked_s + max(TICK_S, self._tick_took_s / TICK_SHARE) - time.monotonic()

    def _tick(self) -> None:
        """Wait until the client has nothing left, and let go of all that it was handed."""
        producer, outputs = self._producer, self._outputs
        self._hurries = False
        began_s = time.monotonic()
        while len(producer.client):
            producer.flush(TICK_POLL_S)
            if self._must_renew or producer.client is None:
                return
            self._aside.go_on(waits=False)
            if self._purges or self._is_late():
                self._hurries = True
                return
            if time.monotonic() - began_s >= STANDS_S and producer.waits_for_standing_partitions():
                # Reported one by one, the other partitions' outputs are acknowledged without these.
                self._trouble_s = time.monotonic()
                self._has_failed = True
                return
        if self._must_renew:
            return
        with outputs.lock:
            sent, outputs.sent = outputs.sent, []
            outputs.let_go(sent)
        self._ticked_s = time.monotonic()
        self._tick_took_s = self._ticked_s - began_s
        producer.acknowledged()
        self._known.all_acknowledged()
        self._unparks |= bool(outputs.parked)
        self._aside.let_go_on(())
        if self._known.are_old:
            self._known.forget()
        for source in sent[SOURCE::PARTS]:
            if isinstance(source, Source):
                source.acknowledged()

    def _is_late(self) -> bool:
        return self._ends_s is not None and time.monotonic() >= self._ends_s

    def _calm_down(self) -> None:
        """Have another client report failures alone, once all has gone well for some time."""
        outputs = self._outputs
        if not self._reports:
            return
        if self._aside.are_held_up:
            self._aside.let_go_on({output.group for output in outputs.reported.values()})
        if outputs.reported or outputs.parked or self._aside:
            return
        if self._known.are_old:
            self._known.forget()
        if not self._always_reports and time.monotonic() - self._trouble_s >= CALM_S:
            self._reports = False
            self._renew(is_fault=False)

    # -- another client --------------------------------------------------------------------------------

    def _open_next(self) -> None:
        try:
            self._producer.open_when_due()
        except EhkafkaError as failed:
            self._emit(OutputProblem(str(failed), self._producer.due_s()))

    def _purge(self) -> None:
        done = [self._purges.popleft() for _ in range(len(self._purges))]
        dropped = self._aside.drop_ended()
        outputs = self._outputs
        with_client = chain(outputs.reported.values(), outputs_of(outputs.sent))
        # One that is lost may hold what is not noted as on its way.
        if self._producer.is_lost or any(output.has_ended for output in with_client):
            self._renew(is_fault=self._producer.is_lost)
        for one in done:
            one.set()
        tell_gone(dropped)

    def _renew(self, *, is_fault: bool) -> None:
        """Give the client up; what it did not answer goes out by the next one, before all that is new."""
        outputs = self._outputs
        # First: its last answers may say more of why.
        self._producer.give_up(LAST_ANSWERS_S)
        counts = is_fault and not self._has_refused
        self._producer.renew(is_fault=counts, waits=self._is_throttled)
        if is_fault:
            self._trouble_s = time.monotonic()
            self._reports = True
        with outputs.lock:
            refused = {id(outputs.reported[number]) for number in self._refused}
            groups = {outputs.reported[number].group for number in self._refused} - {None}
            again = [*outputs.reported.values(), *outputs_of(outputs.sent), *outputs_of(outputs.parked)]
            outputs.reported.clear()
            outputs.sent, outputs.parked = [], []
            left: list[Output] = []
            for output in reversed(again):
                if output.has_ended:
                    outputs.let_go(output)
                    self._gone.append(output)
                elif not self._aside.add_earlier(output):
                    left.append(output)
            for output in reversed(left):
                if output.group in groups or id(output) in refused:
                    self._aside.add(output)
                else:
                    outputs.parked += output
            outputs.note_room()
        self._has_failed = self._is_throttled = self._has_refused = False
        self._refused.clear()
        self._known.forget()
        self._unparks = True


_epoch_of = itemgetter(EPOCH)
_IN_DOUBT = "an output counts as written because a later one is, and the broker did not say where it is"
