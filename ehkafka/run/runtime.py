"""A run in this process, from start to stop: owns the poll thread, and ends all threads in order.

`App` makes a new `Runtime` for each start. Each of its parts has `start`, `stop`, `owns` and `problems`:
`connection` has the client, `routes` the handlers, `sending` what goes out, `mirroring` the mirror, and
`start_stop` the app's own functions around all that; `ending` says why it ends.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from ehkafka.endpoint.client import check_client_version
from ehkafka.errors import EngineError
from ehkafka.events import AppStarted, AppStopped, UserCodeFailed
from ehkafka.intake.poll_loop import PollLoop
from ehkafka.intake.until_caught_up import UntilCaughtUp
from ehkafka.intake.watch import ProgressWatch
from ehkafka.progress.pacing import pace_bound
from ehkafka.run import observation
from ehkafka.run.assembly import Assembly
from ehkafka.run.connection import Connection
from ehkafka.run.ending import RunEnding, death_of, fatal_in_user_code
from ehkafka.run.log_identity import LogIdentity
from ehkafka.run.mirroring import Mirroring
from ehkafka.run.observation import HandlerReports
from ehkafka.run.routes import Routes
from ehkafka.run.run import Run
from ehkafka.run.sending import Sending
from ehkafka.run.shutdown import Shutdown
from ehkafka.run.start_stop import StartStop, with_loop
from ehkafka.run.steer.action import not_running
from ehkafka.run.steer.steering import Steering
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer

    from ehkafka.errors import EhkafkaError
    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.run.options import AppOptions
    from ehkafka.run.steer.action import Action, ActionResult
    from ehkafka.run.steer.keys import KeyState
    from ehkafka.settings import Drain

# How long a stop may take beyond its own time-out, for the threads to end.
STOP_SLACK_S = 5.0


class Runtime(Run):
    """A `Run`. `start` once; `finish` after its end."""

    def __init__(self, app: AppOptions) -> None:
        self.app = app = with_loop(app)
        self.bus = EventBus(app.event_hooks)
        self.started_s = app.clock.now_s()
        self.ending = RunEnding(app)
        assembly = self._assembly()
        self.sending = Sending(assembly)
        self.routes = Routes(assembly, self.sending.letters, self.sending.delivery)
        logs = LogIdentity(app, self.bus, on_death=self.ending.worker_died)
        self.mirroring = Mirroring(app, self.bus)
        self.context = assembly.context(logs, self.mirroring, delivery=self.sending.delivery)
        self.connection = Connection(assembly, self.context, logs)
        self.loop = PollLoop(
            self.context,
            self.routes.by_topic,
            on_error=self.connection.on_error,
            slow_check=self._check,
        )
        self.steering = Steering(
            self.context, self.routes.all, self.loop.by_hand, emit=self.bus.emit, history=app.history
        )
        self.shutdown = Shutdown(self.context, self.loop, self.routes.all)
        self.start_stop = StartStop(app, self.sending.messages, self.ending)
        # What the poll thread does now and then.
        self._checks: list[Callable[[], object]] = [
            ProgressWatch(self.context, self.routes.all).check,
            HandlerReports(
                self.context, self.routes.all, app.settings.report_interval_s, self.bus.emit
            ).check,
            self.sending.check,
            self.routes.check,
            lambda: self.connection.check(self.routes.received_records),
        ]
        self._thread: threading.Thread | None = None

    def _assembly(self) -> Assembly:
        return Assembly(
            app=self.app,
            bus=self.bus,
            fail=self.ending.fail,
            worker_died=self.ending.worker_died,
            user_code_failed=self._user_code_failed,
            exit_now=lambda: self.ending.is_at_once,
            is_stopping=lambda: self.ending.is_stopping,
            stop_from_child=self.ending.stop_from_child,
        )

    # --- from start to stop ------------------------------------------------------------------------

    def start(self) -> None:
        """Reach the broker, call the on_start functions, start the workers, subscribe.

        Raises what is wrong; then nothing runs.
        """
        check_client_version()
        with ExitStack() as undo:
            undo.callback(self.ending.end)  # another thread may wait for the end
            self.start_stop.begin(undo)
            consumer = self._start(undo)
            self._thread = threading.Thread(
                target=self._main, args=(consumer,), name="ehkafka-poll", daemon=True
            )
            self._thread.start()
            undo.pop_all()
        self.start_stop.started()

    def _start(self, undo: ExitStack) -> Consumer:
        """Open the client, start the parts; `undo` stops them, the on_stop functions first."""
        self.bus.start()
        undo.callback(self.bus.close, 1.0)
        for part in (self.routes, self.connection, self.sending):
            undo.callback(part.stop)
        consumer = self.connection.open(self.loop)
        undo.callback(consumer.close)
        self.context.begins.positions.first_counts.begin(self.connection.reach.partitions)
        self._reset()
        self.start_stop.start(undo)
        self.sending.start(self.connection.reach)
        self.routes.start()
        self.mirroring.start()
        return consumer

    def _reset(self) -> None:
        """Take the group back, before this run is a member of it, if that was asked for."""
        if self.app.settings.reset is False:
            return
        from ehkafka.run.resetting import reset_group  # noqa: PLC0415 - most runs reset nothing

        topics = [topic for route in self.routes.all for topic in route.topics]
        start_of = self.context.begins.positions.start_of
        reset_group(self.app.endpoint, self.app.settings, topics, start_of, self.bus.emit)

    def _main(self, consumer: Consumer) -> None:
        """The poll thread."""
        try:
            self.connection.start(consumer)
            self._poll(consumer)
        except BaseException as error:
            self.ending.fail(death_of("The poll thread", error))
        finally:
            self._end(consumer)

    def _poll(self, consumer: Consumer) -> None:
        membership = self.loop.membership
        topics = sorted(self.routes.by_topic)
        consumer.subscribe(
            topics,
            on_assign=membership.on_assign,
            on_revoke=membership.on_revoke,
            on_lost=membership.on_lost,
        )
        self.bus.emit(AppStarted(self.app.settings.group, tuple(topics)))
        if (bound := pace_bound(self.app.settings, self.context.ledger.pacing)) is not None:
            self.bus.emit(bound)
        if self.app.until is not None:
            self._end_once_caught_up(self.app.until.settle_s)
        self.loop.run(consumer, lambda: self.ending.is_stopping)

    def _check(self) -> None:
        for check in self._checks:
            check()

    def _end_once_caught_up(self, settle_s: float) -> None:
        until = UntilCaughtUp(
            self.context,
            self.routes.all,
            settle_s=settle_s,
            stop=self.ending.request_stop,
            fail=self.ending.fail,
        )
        self._checks.append(lambda: None if self.ending.is_stopping else until.check())

    def _end(self, consumer: Consumer) -> None:
        request = self.ending.request
        assert request is not None
        try:
            self.routes.resizing.stop()
            if (returned := self.shutdown.run(consumer, request)) is not None:
                self.ending.fail(returned)
        except BaseException as error:  # the run must end visibly whatever happens
            self.ending.fail(EngineError(f"The stop failed: {error!r}. Please report this error."))
        finally:
            self.loop.by_hand.close()
            self.sending.stop()
            self.mirroring.stop(deadline_s=request.deadline_s, at_once=self.ending.is_at_once)
            self.connection.stop()
            self.routes.stop()
            # After everything that may still make it a failure.
            self.bus.emit(AppStopped(self.ending.report(), self.shutdown.returned_records))
            self.bus.close(2.0)
            self.ending.end()

    def finish(self) -> None:
        """Run the on_stop functions, once the run has ended. On the thread that stops the app."""
        self.start_stop.stop()

    def _user_code_failed(self, where: str, error: BaseException) -> None:
        self.report(where, error)
        if (failure := fatal_in_user_code(where, error)) is not None:
            self.ending.fail(failure)

    def report(self, where: str, error: BaseException) -> None:
        """Report what a function of the user's raised."""
        self.bus.emit(UserCodeFailed.of(where, error))

    # --- asked by any thread -----------------------------------------------------------------------

    @property
    def state(self) -> Literal["starting", "running", "stopping", "stopped"]:
        """The state of its life cycle."""
        if self.ending.is_done:
            return "stopped"
        if self._thread is None:
            return "starting"
        return "stopping" if self.ending.is_stopping else "running"

    @property
    def failure(self) -> EhkafkaError | None:
        """The error that ends it, if any."""
        return self.ending.failure

    @property
    def is_reaching(self) -> bool:
        """Whether its start waits for a token or the broker."""
        return self.connection.reach.is_waiting

    @property
    def is_polling(self) -> bool | None:
        """Whether the poll thread runs; None before it was started."""
        return None if self._thread is None else self._thread.is_alive()

    def request_stop(
        self, reason: str, *, drain: Drain | None = None, timeout_s: float | None = None
    ) -> float:
        """Ask for a stop; return within how many seconds it ends. Safe in a signal handler."""
        request = self.ending.request_stop(reason, drain=drain, timeout_s=timeout_s)
        return max(0.0, request.deadline_s - self.app.clock.now_s()) + STOP_SLACK_S

    def stop_by_signal(self, name: str, drain: Drain | None, timeout_s: float | None) -> None:
        """Ask for a stop, once it has started. Between two bytecodes of the main thread.

        Raises `KeyboardInterrupt` while the start waits for a token or the broker.
        """
        if self._thread is not None:
            self.request_stop(name, drain=drain, timeout_s=timeout_s)
        elif self.is_reaching:
            raise KeyboardInterrupt

    def exit_now(self) -> None:
        """Wait for nothing any more. Raises `KeyboardInterrupt` where it has not started, likewise."""
        if self._thread is None:
            raise KeyboardInterrupt
        self.ending.exit_now()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it has ended; False when the time-out came first."""
        return self.ending.wait(timeout_s)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one of this run's: it must not wait for the run's end."""
        parts = (self.start_stop, self.connection, self.routes, self.sending, self.mirroring)
        own = (*parts, self.context.hook_threads, self.bus)
        return thread is self._thread or any(one.owns(thread) for one in own)

    def problems(self) -> list[str]:
        """Return what is wrong with any part, while it lasts."""
        if self.ending.is_done:
            return []
        parts = (self.connection, self.mirroring, self.sending, self.routes)
        found = [one for part in parts for one in part.problems()]
        return [one for one in (*found, self.context.hook_threads.problem) if one is not None]

    snapshot = observation.snapshot_of
    health = observation.health_of_run
    not_live = observation.not_live
    not_started = observation.not_started
    not_ready = observation.not_ready
    log_state = observation.report_state

    def keys(self, *, values: bool = False) -> list[KeyState]:
        """Return the keys that hold a commit, then others that wait by themselves."""
        return [] if self.ending.is_done else self.steering.keys(values=values)

    def act(self, action: Action) -> ActionResult:
        """Carry an action out. Raises `ActionRefusedError`."""
        if self.ending.is_done or self.is_polling is not True:
            raise not_running(self.state)
        return self.steering.act(action)

    def resize(self, handler: str, workers: int) -> None:
        """Change how many workers a handler has. Raises `ConfigurationError`, or what its set-up raises."""
        if self.state != "running":
            super().resize(handler, workers)
        self.routes.resizing.resize(handler, workers)

    def measure(self) -> None:
        """Have workers count from now on how long their calls take."""
        self.routes.measure()

    def own_producer(self) -> OwnProducer | None:
        """Return what `app.producer` sends with; None where it is not open."""
        messages = self.sending.messages
        return messages if messages.is_open else None

    @property
    def poll_gap_s(self) -> float:
        """The longest time between two turns of the poll loop, of late."""
        open_s = self.app.clock.now_s() - self.loop.last_turn_s if self.is_polling else 0.0
        return self.loop.gap.longest_s(open_s)
