"""One run of an app, from start to stop: owns the threads and ends them in order.

Beside `app` and `assembly`, which builds the parts, the one module that knows every room. `App` makes a new
`Runtime` for each start.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING

from ehkafka.endpoint.broker_errors import ALL_BROKERS_DOWN
from ehkafka.endpoint.client import check_client_version
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.errors import EhkafkaError, EndpointError, EngineError
from ehkafka.events import AppStarted, AppStopped, ConnectionProblem, UserCodeFailed
from ehkafka.intake.poll_loop import PollLoop
from ehkafka.intake.watch import ProgressWatch
from ehkafka.progress.pacing import pace_bound
from ehkafka.recovery.failures import STOP
from ehkafka.run.assembly import Assembly
from ehkafka.run.connection_errors import ConnectionErrors
from ehkafka.run.endings import death_of, fatal_in_user_code
from ehkafka.run.log_identity import LogIdentity
from ehkafka.run.mirroring import Mirroring
from ehkafka.run.reach import Reach
from ehkafka.run.reports import HandlerReports
from ehkafka.run.resizing import Resizing
from ehkafka.run.shutdown import Shutdown, StopRequest
from ehkafka.run.steer.steering import Steering
from ehkafka.settings import drain_of
from ehkafka.telemetry.bus import EventBus
from ehkafka.workers.call_times import CallTimes
from ehkafka.workers.protocol import Checking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from confluent_kafka import Consumer, KafkaError

    from ehkafka.intake.route import Route
    from ehkafka.intake.until_caught_up import UntilCaughtUp
    from ehkafka.outputs.delivery import Delivery
    from ehkafka.recovery.letters.target import LetterTarget
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Drain
    from ehkafka.workers.attempt_clock import OverdueAttempt

# Letters that are not acknowledged by then belong to records that are redelivered.
LETTERS_S = 0.5


# All runs of this process that are not forgotten yet: those that go on share what is fetched ahead.
_started: weakref.WeakSet[Runtime] = weakref.WeakSet()


class Runtime:
    """Threads and parts of one run. `start` once, then `request_stop` and `wait`."""

    def __init__(self, app: AppOptions) -> None:
        self.app = app
        self.bus = EventBus(app.event_hooks)
        self.started_s = app.clock.now_s()
        self._lock = threading.Lock()
        # Under the lock: the first fatal error, and the request to stop.
        self.failure: EhkafkaError | None = None
        self._has_ended = False
        self._request: StopRequest | None = None
        self._exit_now = threading.Event()
        self._done = threading.Event()
        # Called without arguments at the first fatal error and at the end, by any thread: it must return
        # at once. Set before the start.
        self.on_change: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None
        assembly = Assembly(
            app=app,
            bus=self.bus,
            fail=self.fail,
            worker_died=self._worker_died,
            user_code_failed=self._user_code_failed,
            exit_now=self._exit_now.is_set,
            is_stopping=lambda: self.is_stopping,
            stop_from_child=self._stop_from_child,
        )
        delivery = assembly.delivery()
        self._letters = letters = assembly.letters(delivery)
        # What `app.producer` sends. The app itself opens and closes it.
        self.messages = assembly.messages()
        self._routes = [assembly.route(spec, letters, delivery) for spec in app.specs]
        self._logs = LogIdentity(app, self.bus, on_death=self._worker_died)
        self.mirroring = Mirroring(app, self.bus)
        self.context = assembly.context(self._logs, self.mirroring, delivery=delivery)
        self._watch = ProgressWatch(self.context, self._routes)
        self._reports = HandlerReports(
            self.context, self._routes, app.settings.report_interval_s, self.bus.emit
        )
        by_topic = {topic: route for route in self._routes for topic in route.topics}
        self._credential = CredentialWatch(app.endpoint.credential, self.bus.emit)
        self._connection = ConnectionErrors(time.monotonic, self._report_connection_error)
        self._stop_token_events: Callable[[], None] = lambda: None
        self._stop_jumps: Callable[[], object] = lambda: None
        self.loop = PollLoop(
            self.context, by_topic, on_error=self._on_connection_error, slow_check=self._check_slowly
        )
        self.steering = Steering(
            self.context, self._routes, self.loop.by_hand, emit=self.bus.emit, history=app.history
        )
        self.shutdown = Shutdown(self.context, self.loop, self._routes)
        self.resizing = Resizing(self._routes, self.bus.emit)
        # Set by the poll thread, before its first turn.
        self._until: UntilCaughtUp | None = None
        self._reach = Reach(app, letters=letters.topics, outputs=app.output_topics, emit=self.bus.emit)

    def start(self, on_reached: Callable[[], object] = lambda: None) -> None:
        """Reach the broker, call `on_reached`, start the workers, subscribe.

        Raises what is wrong; then nothing runs.
        """
        check_client_version()
        self.bus.start()
        if self.app.endpoint.tokens is not None:
            self._stop_token_events = self.app.endpoint.tokens.listen(self.bus.emit)
        self._stop_jumps = self.app.clock.on_jump(self._on_jump)
        try:
            consumer = self._open()
            try:
                self.context.positions.first_counts.begin(self._reach.partitions)
                self._reset()
                on_reached()
                if self.context.delivery is not None:
                    self._reach.wait(self.context.delivery.start)
                self._start_workers()
                self.mirroring.start()
            except BaseException:
                consumer.close()
                raise
        except BaseException:
            self._stop_sending()
            self._stop_token_events()
            self._stop_jumps()
            self.bus.close(1.0)
            self._done.set()  # another thread may wait for the end
            raise
        self._thread = threading.Thread(target=self._main, args=(consumer,), name="ehkafka-poll", daemon=True)
        self._thread.start()

    def request_stop(
        self, reason: str, *, drain: Drain | bool | None = None, timeout_s: float | None = None
    ) -> StopRequest:
        """Ask for a stop and return the request that counts, which is the first; safe in a signal handler.

        What is not said is taken from the settings. Raises `ConfigurationError` for an unknown `drain`.
        """
        drain = drain_of(self.app.settings.drain if drain is None else drain)
        timeout_s = self.app.settings.stop_s if timeout_s is None else timeout_s
        if self._request is None:
            deadline_s = self.app.clock.now_s() + timeout_s
            self._request = StopRequest(reason, drain=drain, timeout_s=timeout_s, deadline_s=deadline_s)
        return self._request

    def _stop_from_child(self, drain: Drain | bool | None, timeout_s: float | None) -> None:
        self.request_stop("a worker process called stop()", drain=drain, timeout_s=timeout_s)

    def exit_now(self) -> None:
        """Wait for nothing any more: commit what is finished and leave."""
        self.request_stop("asked to stop at once", drain="running", timeout_s=0.0)
        self._exit_now.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the run has ended; False when the time-out came first."""
        return self._done.wait(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of this run's: it must not wait for the run's end."""
        ours = [self.context.hook_threads.owns, self.bus.owns, self.messages.owns, self.mirroring.owns]
        ours += [self._credential.owns, *(route.workers.owns for route in self._routes)]
        if self.app.endpoint.tokens is not None:
            ours.append(self.app.endpoint.tokens.owns)
        ours_too = any(one.owns(thread) for one in self._senders)
        return thread is self._thread or ours_too or any(owns(thread) for owns in ours)

    @property
    def is_reaching(self) -> bool:
        """True while the start waits for a token or the broker."""
        return self._reach.is_waiting

    @property
    def is_polling(self) -> bool | None:
        """Whether the poll thread runs; None before it was started."""
        return None if self._thread is None else self._thread.is_alive()

    @property
    def is_stopping(self) -> bool:
        """True from the first request to stop."""
        return self._request is not None

    @property
    def is_done(self) -> bool:
        """True when the run has ended."""
        return self._done.is_set()

    def fail(self, error: EhkafkaError) -> None:
        """End the run with an error, without a drain: what runs ends, what is queued is redelivered."""
        with self._lock:
            # What fails after the end, such as a hook that was left running, changes nothing any more.
            is_first = self.failure is None and not self._has_ended
            if is_first:
                self.failure = error
        self.request_stop(f"{type(error).__name__}", drain="running")
        if is_first:
            self.on_change()

    def measure(self) -> None:
        """Have workers count from now on how long their calls take."""
        for route in self._routes:
            if route.hub.call_times is None:
                route.hub.call_times = CallTimes()

    @property
    def routes(self) -> Sequence[Route]:
        """The handlers, with their hubs and workers."""
        return self._routes

    @property
    def poll_gap_s(self) -> float:
        """The longest time between two turns of the poll loop, of late."""
        open_s = self.app.clock.now_s() - self.loop.last_turn_s if self.is_polling else 0.0
        return self.loop.gap.longest_s(open_s)

    def overdue(self) -> tuple[OverdueAttempt, ...]:
        """Return the calls on threads that run for longer than their handler's deadline."""
        clocks = [route.attempts for route in self._routes if route.attempts is not None]
        return tuple(attempt for clock in clocks for attempt in clock.overdue())

    def next_due_s(self) -> float | None:
        """Return when the next retry, token, batch or deferral's deadline is due; None where nothing is."""
        dues = [route.hub.earliest_due_s() for route in self._routes]
        dues += [one.earliest_due_s() for route in self._routes if (one := route.deferrals) is not None]
        return min((due for due in dues if due is not None), default=None)

    def is_at_rest(self, *, letters: bool) -> bool:
        """Tell whether no record runs, deferred ones apart, and none is left that could run now.

        With `letters` none may wait for its dead letter to be safe either.
        """
        due_s = self.next_due_s()
        if due_s is not None and due_s <= self.app.clock.now_s():
            return False
        deferred = {
            held for route in self._routes if route.deferrals is not None for held in route.deferrals.held()
        }
        return all(route.hub.is_at_rest(deferred, letters=letters) for route in self._routes)

    def stacks(self) -> dict[str, str]:
        """Return where each busy worker is, by name."""
        return {name: stack for route in self._routes for name, stack in route.workers.stacks().items()}

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with the connection and with the credential, while it lasts."""
        if self.is_done:
            return
        tokens = self.app.endpoint.tokens
        of_tokens = tokens.problem if tokens else None
        found = (self._connection.problem, self._credential.problem, of_tokens, self.mirroring.problem)
        yield from (problem for problem in found if problem is not None)
        yield from filter(None, (one.problem for one in (*self._senders, *self._letters.kept, self.messages)))
        if (hanging := self.context.hook_threads.problem) is not None:
            yield hanging

    def _open(self) -> Consumer:
        _started.add(self)
        properties = self._reach.properties(sum(not runtime.is_done for runtime in tuple(_started)))
        self._logs.use(properties)
        self.loop.use(properties)
        take_statistics = self.context.contact.with_statistics(properties)
        return self._reach.open(
            properties,
            stats_cb=take_statistics,
            on_error=self._on_client,
            on_commit=self.context.committer.on_commit,
            throttle_cb=self.context.throttle.on_throttle,
        )

    @property
    def _senders(self) -> Iterable[LetterTarget | Delivery]:
        """What sends for records."""
        return *self._letters.targets, *filter(None, [self.context.delivery])

    def _stop_sending(self) -> None:
        if self.context.delivery is not None:
            self.context.delivery.stop(LETTERS_S)
        self._letters.stop(LETTERS_S)

    def _reset(self) -> None:
        """Take the group back, before this run is a member of it, if that was asked for."""
        if self.app.settings.reset is False:
            return
        from ehkafka.run.resetting import reset_group  # noqa: PLC0415 - most runs reset nothing

        topics = [topic for route in self._routes for topic in route.topics]
        start_of = self.context.positions.start_of
        reset_group(self.app.endpoint, self.app.settings, topics, start_of, self.bus.emit)

    def _on_client(self, consumer: Consumer, error: KafkaError) -> bool:
        if self._thread is None:
            return False
        self.loop.error_cb(consumer, error)
        return True

    def _on_jump(self) -> None:
        """Wake all that sleep until some time. The poll thread comes by itself, within its longest wait."""
        for route in self._routes:
            route.hub.wake(route.hub.inboxes.all_inboxes())
        for one in self._senders:
            one.wake()

    def _start_workers(self) -> None:
        started: list[Route] = []
        try:
            for route in self._routes:
                started.append(route)
                route.workers.start()
        except BaseException:
            for route in started:
                route.workers.stop(1.0)
            raise
        self.resizing.start()

    def _main(self, consumer: Consumer) -> None:
        """The poll thread."""
        try:
            self._credential.start(consumer)
            self._poll(consumer)
        except BaseException as error:
            self.fail(death_of("The poll thread", error))
        finally:
            self._finish(consumer)

    def _poll(self, consumer: Consumer) -> None:
        membership = self.loop.membership
        topics = sorted({topic for route in self._routes for topic in route.topics})
        consumer.subscribe(
            topics,
            on_assign=membership.on_assign,
            on_revoke=membership.on_revoke,
            on_lost=membership.on_lost,
        )
        self.bus.emit(AppStarted(self.app.settings.group, tuple(topics)))
        if (bound := pace_bound(self.app.settings, self.context.ledger.pacing)) is not None:
            self.bus.emit(bound)
        self._until = self._until_caught_up(consumer)
        self.loop.run(consumer, lambda: self._request is not None)

    def _until_caught_up(self, consumer: Consumer) -> UntilCaughtUp | None:
        if (until := self.app.until) is None:
            return None
        from ehkafka.intake.until_caught_up import UntilCaughtUp  # noqa: PLC0415 - most runs have no end

        return UntilCaughtUp(
            self.context,
            self._routes,
            self._logs.asker,
            consumer,
            settle_s=until.settle_s,
            stop=self.request_stop,
            fail=self.fail,
        )

    def _finish(self, consumer: Consumer) -> None:
        request = self._request
        assert request is not None
        try:
            self.resizing.stop()
            if (returned := self.shutdown.run(consumer, request)) is not None:
                self.fail(returned)
        except BaseException as error:  # the run must end visibly whatever happens
            self.fail(EngineError(f"The stop failed: {error!r}. Please report it."))
        finally:
            self.resizing.stop()
            self.loop.by_hand.close()
            self._stop_sending()
            self.mirroring.stop(deadline_s=request.deadline_s, at_once=self._exit_now.is_set())
            self._logs.stop()
            self._credential.stop()
            self._stop_token_events()
            self._stop_jumps()
            self._report_end()
            self.bus.close(2.0)
            self._done.set()
            self.on_change()

    def _report_end(self) -> None:
        """Tell the end of the run, after everything that may still make it a failure."""
        with self._lock:
            self._has_ended = True
            exit_code = 0 if self.failure is None else self.failure.exit_code
        self.bus.emit(AppStopped(exit_code, self.shutdown.returned_records))

    def _check_slowly(self) -> None:
        self._watch.check()
        self._reports.check()
        self._letters.check()
        self._credential.apply()
        for route in self._routes:
            if isinstance(route.workers, Checking):
                route.workers.check()
        received = sum(route.hub.tally.received_records for route in self._routes)
        context = self.context
        self._connection.check(received, context.committer.acknowledged, context.contact.up_at_s)
        context.contact.check(context.committer.acknowledged, context.throttle.total_s)
        for text in context.contact.new_silences(context.owned, self.app.endpoint.name):
            self.bus.emit(ConnectionProblem("silence", text, fatal=False))
        if self._connection.wants_proof():
            self.context.ledger.ask_for_proof()
        if self._until is not None and self._request is None:
            self._until.check()

    def _on_connection_error(self, error: KafkaError) -> None:
        if error.name() == "_AUTHENTICATION":
            self._credential.check_now()
        if error.code() == ALL_BROKERS_DOWN:
            self.context.contact.note_down()
        self._connection.on_error(error)

    def _report_connection_error(self, error: KafkaError) -> None:
        if self.app.on_error is None:
            return

        def ask() -> None:
            assert self.app.on_error is not None
            if self.app.on_error("connection", None, None, error) == STOP:
                self.fail(EndpointError(f"on_error stopped the app: {error.str()}"))

        # The user's code may block: not on the poll thread.
        self.context.hook_threads.submit("on_error", {"on_error": ask}, order="on_error")

    def _worker_died(self, error: BaseException) -> None:
        self.fail(death_of("A worker thread", error))

    def report_on_end(self, error: BaseException) -> None:
        """Report what the function raised that was called for the run's failure."""
        self.bus.emit(UserCodeFailed.of("on_end", error))

    def _user_code_failed(self, where: str, error: BaseException) -> None:
        self.bus.emit(UserCodeFailed.of(where, error))
        if (failure := fatal_in_user_code(where, error)) is not None:
            self.fail(failure)
