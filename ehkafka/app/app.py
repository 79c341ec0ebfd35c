"""The app: what was registered with its decorators (`registration`), and the life cycle around it.

Knows the runtime and nothing below it. All methods may be called from any thread unless said otherwise.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from ehkafka.app.configuration import Configurable, Configuration
from ehkafka.app.entering import Entering
from ehkafka.app.in_test import InTest
from ehkafka.app.on_spark import OnSpark
from ehkafka.app.producing import Producing
from ehkafka.app.registration import Registration
from ehkafka.app.shown import Shown
from ehkafka.app.supervised import Supervised
from ehkafka.app.web import Web
from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.run.importing import refuse_while_importing
from ehkafka.run.signals import reports_asked, stops
from ehkafka.run.until import checked_until
from ehkafka.settings import check_timeout, drain_of
from ehkafka.wording.calling import plainly

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Unpack

    from ehkafka.app.entering import LoopChoice
    from ehkafka.app.keywords import AppSettings
    from ehkafka.app.on_end import ByHand, OnEnd
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.events.history import History
    from ehkafka.http.options import Http
    from ehkafka.positions.start import Start
    from ehkafka.run.options import AppOptions
    from ehkafka.run.runtime import Runtime
    from ehkafka.run.until import Until, UntilWord
    from ehkafka.settings import Drain
    from ehkafka.workers.tasks.shared import SharedLoop

State = Literal["new", "starting", "running", "stopping", "stopped"]

# How long `stop` waits beyond its own time-out for the threads to end.
STOP_SLACK_S = 5.0


class App(Producing, Entering, Registration, Configurable, Shown, Supervised, OnSpark, Web, InTest):
    """A consumer group's member: handlers, and one consumer that feeds them.

    - `group` (required): the consumer group.
    - `endpoint` (default `None`): where the broker is. `None`: the environment says it when it is first
      needed (`Endpoint.from_env`).
    - `start` (default `None`): where a partition begins that has no commit of the group: `"earliest"`,
      `"latest"`, an offset, a datetime, a timedelta back, a mapping of partitions to these, or a callable
      `(topic, partition) -> position` (`ehkafka.positions.start` has the rules). It must be given here or by
      the configuration.
    - `history` (default `None`): a recorder for the checker of `ehkafka.testing`.
    - `mirror` (default `None`): a copy of the commits elsewhere, such as `BlobMirror`.
    - `http` (default `None`): where to serve probes, metrics, the page and actions while the app runs: an
      address such as `"127.0.0.1:8080"`, or `ehkafka.http.Http(…)`. Needs the extra `[web]`.
    - `loop` (default `"own"`): where coroutines run: `"own"` on event loops of the app's own, one for each
      async handler; `"caller"` on the one that enters the app by `async with app`, so that they share its
      clients. Then it is entered in no other way.
    - `on_end` (default `"raise"`): what an error that ends the app does to who entered it: `"raise"` it there
      at once (`async with` cancels the task; in `with`, `wait()` raises it, also of another app around it);
      `"signal"` sends SIGTERM to the own process, so that a web server stops; or a function is called with
      the error, on the loop of an `async with`. The block's end, and `run()`, raise it in any case.
    - `**settings`: the fields of `ehkafka.settings.Settings`, which has a line for each: commits, limits,
      stop, health, and librdkafka's properties as `consumer={…}`.

    Raises `ConfigurationError` for what cannot work.
    """

    @plainly
    def __init__(
        self,
        *,
        group: str,
        endpoint: Endpoint | None = None,
        start: Start | None = None,
        history: History | None = None,
        mirror: MirrorChoice | None = None,
        http: str | Http | None = None,
        loop: LoopChoice = "own",
        on_end: OnEnd = "raise",
        **settings: Unpack[AppSettings],
    ) -> None:
        super().__init__()
        self._configuration = Configuration(group, endpoint, start, settings)
        self._history = None if history is None else _checked_history(history)
        self._mirror = None if mirror is None else _checked_mirror(mirror)
        self._take_http(http)
        self._take_ending(loop, on_end)
        # Guards the life cycle, not the data: two threads may start and stop.
        self._lock = threading.RLock()
        self._runtime: Runtime | None = None
        self._state: State = "new"
        self._process_id = os.getpid()
        # Who is inside `start`; only that thread compares itself with it.
        self._starter: threading.Thread | None = None
        # What a signal that came during `run` asks for: its name, the drain, the time. Main thread only.
        self._early_stop: tuple[str, Drain | None, float | None] | None = None
        # Set by `run` for the start within it.
        self._until: Until | None = None

    # --- life cycle --------------------------------------------------------------------------------

    @plainly
    def run(
        self,
        *,
        until: UntilWord | None = None,
        settle_s: float = 60.0,
        members: int | Literal["auto"] | None = None,
        hung_s: float | None = None,
        members_min: int | None = None,
        health_file: str | os.PathLike[str] | None = None,
        http: str | Http | None = None,
    ) -> None:
        """Start, wait until the end, and raise what ended the app, if it was an error.

        In the main thread SIGINT and SIGTERM stop it: the first drains, the second exits at once. One that
        comes during the start lets that end first, and a second one raises `KeyboardInterrupt`; so does the
        first while the broker or a token is waited for. SIGUSR1 logs the snapshot and where workers are.

        - `until` (default `None`): `"caught_up"` ends the run when all up to where the logs ended at the
          start is handled and committed. Raises `UnfinishedError` where records still wait then.
        - `settle_s` (seconds, default `60.0`): how long such records may wait.

        Several processes (`docs/members.md` has the rules)

        - `members` (default `None`): start so many processes, each with the app and a member of the group, or
          `"auto"` one for each core; this one then consumes nothing and looks after them.
        - `hung_s` (seconds, default `None`): a member that is not live for so long is killed and restarted.
        - `members_min` (default `None`): with fewer that are ready `/ready` fails. `None`: 1.

        Shown

        - `health_file` (default `None`): a file that is touched every few seconds while the app, or each
          member, is live.
        - `http` (default `None`): what `App(http=…)` takes, for this run and those after it.
        """
        refuse_while_importing()
        self._refuse_without_loop("run()")
        self._take_http(http)
        ends = checked_until(until, settle_s)
        if members is not None or hung_s is not None or members_min is not None:
            with self._lock:
                self._check_process()
                self._must_be_at_rest()
                self._must_have_handlers()
            run = {"until": until, "settle_s": settle_s}
            with self._served() as serving:
                self._run_members(
                    members,
                    self._options(),
                    serving,
                    hung_s=hung_s,
                    members_min=members_min,
                    health_file=health_file,
                    run=run,
                )
            return
        # Before the start: from its last moments on records are handled, and a signal must not cut them off.
        with (
            stops(self._stop_on_signal, self._exit_on_signal),
            reports_asked() as is_asked,
            self._shown_live(health_file),
        ):
            self._early_stop = None
            self._until = ends
            try:
                self._start(_nobody)
            finally:
                self._until = None
            runtime = self._runtime
            assert runtime is not None
            if self._early_stop is not None:
                self._stop_on_signal(*self._early_stop)
            # In slices: a wait without end would keep signals from being handled on some platforms.
            while not runtime.wait(0.5):
                if is_asked():
                    self.log_state("SIGUSR1")
        self._finish()
        # Another thread's `stop` may have been quicker, and raised it there: a program that ends by what
        # `run` does must not take a failure for a good end.
        if runtime.failure is not None:
            raise runtime.failure

    def _stop_on_signal(self, name: str, drain: Drain | None = None, timeout_s: float | None = None) -> None:
        # In the main thread, between two of its bytecodes. Until the start is over the runtime may be the
        # one of the last run.
        self._early_stop = name, drain, timeout_s
        runtime = self._runtime
        if runtime is None:
            return
        if self._state == "running":
            runtime.request_stop(name, drain=drain, timeout_s=timeout_s)
        elif self._state == "starting" and runtime.is_reaching:
            raise KeyboardInterrupt

    def _exit_on_signal(self) -> None:
        if self._state != "running" or self._runtime is None:
            raise KeyboardInterrupt
        self._runtime.exit_now()

    def _start(self, enter: Callable[[], ByHand | None], loop: SharedLoop | None = None) -> None:
        refuse_while_importing()
        with self._lock:
            self._check_process()
            self._must_be_at_rest()
            self._must_have_handlers()
            self._state, self._starter = "starting", threading.current_thread()
            self._entered = None
            try:
                with ExitStack() as undo:
                    # Bound before anything starts: a port that is in use ends the start with nothing done.
                    undo.callback(self._unbind)
                    serving = self._bind()
                    undo.callback(self._close_loop)
                    self._open_loop(loop)
                    self._runtime = runtime = self._make_runtime()
                    runtime.start(lambda: self._call_on_start(undo))
                    undo.pop_all()
                self._entered = enter()
            except BaseException:
                self._state = "stopped"
                raise
            finally:
                self._starter = None
            self._state = "running"
            self._changed(runtime)  # it may have failed before anybody was inside
            if serving is not None:
                runtime.bus.emit(serving)

    @plainly
    def stop(self, *, drain: Drain | bool | None = None, timeout_s: float | None = None) -> None:
        """Stop and wait for the end; raise what ended the app, if it was an error.

        Nothing more is received. What is finished first, within `timeout_s` seconds, says `drain`:
        `"started"` what is started, and what lies below it in its partition if that fits, so that nobody
        repeats anything; else what was finished above the commits is saved with them; `"all"`, or True,
        all that was received; `"running"`, or False, what runs now. By default both are the settings'
        (`drain`, `stop_s`). Records never started, and keys that wait for a retry or by `Hold`, are left, and
        one line says so (`RecordsLeft`). Raises `UnfinishedError` when a started record had no outcome in
        time, when the last commit failed, and when finished records could not be saved.

        A stopped or never started app stays as it is. Called from code that the app runs (handlers, hooks,
        callables, functions for dead letters; in worker processes, too), it asks for the stop and returns at
        once.
        """
        self._check_process()
        check_timeout(timeout_s, "stop")
        drain = None if drain is None else drain_of(drain)
        if self._supervisor is not None:
            self._stop_members(drain, timeout_s)
            return
        runtime = self._runtime
        if runtime is None:
            _stop_from_worker_process(drain, timeout_s)
            return
        if self._state == "stopped":
            return
        request = runtime.request_stop("stop() was called", drain=drain, timeout_s=timeout_s)
        here = threading.current_thread()
        if here is self._starter or runtime.owns(here) or self._is_on_loop(here):
            return  # it would wait for itself
        self._raise_here()
        limit_s = max(0.0, request.deadline_s - runtime.app.clock.now_s()) + STOP_SLACK_S
        if not runtime.wait(limit_s):
            raise EngineError(f"The app did not end within {limit_s:.0f} s. Please report it.")
        self._finish()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the app has ended by itself; True when it has. `stop` then raises what ended it."""
        check_timeout(timeout_s, "wait")
        self._check_process()
        if self._supervisor is not None:
            return self._supervisor.wait(timeout_s)
        runtime = self._runtime
        # A start that failed leaves a runtime that never ran.
        return runtime is None or self._state == "stopped" or self._wait_inside(runtime, timeout_s)

    @plainly
    def resize(self, handler: str, *, workers: int) -> None:
        """Change how many workers a handler has while the app runs; `handler` is its function's name.

        New threads run `on_worker_start` before this returns; surplus ones leave when idle, or after their
        turn. It holds until the stop, also where `workers="auto"`. Raises `ConfigurationError`, or what
        `on_worker_start` raises: then the number is as before.
        """
        self._check_process()
        runtime = self._runtime
        if runtime is None or self.state != "running":
            raise ConfigurationError(
                f"resize({handler!r}): the app is {self.state}; set workers= where the handler is registered."
            )
        with self._lock:
            runtime.resizing.resize(handler, workers)

    # --- what it shows -----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the app is in its life."""
        if self._supervisor is not None:
            return self._supervisor.state
        runtime = self._runtime
        if self._state == "running" and runtime is not None:
            if runtime.is_done:
                return "stopped"
            if runtime.is_stopping:
                return "stopping"
        return self._state

    @property
    def mirror(self) -> MirrorChoice | None:
        """The mirror that the app was given."""
        return self._mirror

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all handlers, sorted."""
        return tuple(sorted({topic for spec in self._specs for topic in spec.topics}))

    # --- inside ------------------------------------------------------------------------------------

    def _make_runtime(self) -> Runtime:
        self._supervisor = None  # an earlier run's
        # The engine is most of the package: whoever only makes an app, as commands and workers do, has no
        # use for it.
        from ehkafka.run.runtime import Runtime  # noqa: PLC0415

        runtime = self._measured(Runtime(self._options()))
        runtime.on_change = lambda: self._changed(runtime)
        return runtime

    def _options(self) -> AppOptions:
        from ehkafka.intake.context import PartitionHooks  # noqa: PLC0415 - with the engine
        from ehkafka.run.options import AppOptions  # noqa: PLC0415 - likewise

        return AppOptions(
            endpoint=self.endpoint,
            settings=self.settings,
            specs=tuple(self._specs),
            middleware=tuple(self._middleware),
            partition_hooks=PartitionHooks(**self._partition_hooks),
            on_error=self._on_error,
            on_start=tuple(self._on_start),
            on_stop=tuple(self._on_stop),
            worker_set_up=self._worker_set_up,
            worker_tear_down=self._worker_tear_down,
            event_hooks=(*self._event_hooks, *self._site_hooks()),
            history=self._history,
            mirror=self._mirror,
            until=self._until,
            clock=self._clock,
            advertise=None if self._http is None else self._http.advertise,
            shared_loop=self._shared_loop,
            client_number=self._client_number,
        )

    def _finish(self) -> None:
        """Run the on_stop functions once and raise what ended the run, if it was an error."""
        with self._lock:
            runtime = self._runtime
            if runtime is None or self._state == "stopped":
                return
            self._state = "stopped"
            try:
                self._call_on_stop()
            finally:
                self._close_loop()
                self._unbind()
                if runtime.failure is not None:
                    raise runtime.failure

    def _must_have_handlers(self) -> None:
        if not self._specs:
            raise ConfigurationError("The app has no handler; register one with @app.handler('topic').")

    def _must_be_new(self, what: str) -> None:
        if self._state not in ("new", "stopped"):
            raise ConfigurationError(f"The app is {self._state}: register the {what} before the start.")

    def _must_be_at_rest(self) -> None:
        if self._state == "running" and self.state == "stopped":
            raise ConfigurationError(
                "The app has ended by itself; call stop() before the next start: it runs the on_stop "
                "functions and raises what ended the app."
            )
        if self._state not in ("new", "stopped"):
            raise ConfigurationError(f"The app is {self._state}; start it once, or after it has stopped.")

    def _check_process(self) -> None:
        if os.getpid() != self._process_id:
            if self._state == "new":
                self._process_id = os.getpid()
            else:
                raise ConfigurationError(
                    "The process forked after the app was started, so the child has none of its threads and "
                    "sockets. Make the app in the child, or start it after the fork."
                )


def _nobody() -> None:
    """Enter as `run` does, which raises what ends the app itself."""


def _checked_history(history: History) -> History | None:
    from ehkafka.events.history import checked_history  # noqa: PLC0415 - the whole catalogue of events

    return checked_history(history)


def _checked_mirror(mirror: MirrorChoice) -> MirrorChoice | None:
    from ehkafka.checkpoints.store_mirror import checked_choice  # noqa: PLC0415 - for apps with a mirror

    return checked_choice(mirror)


def _stop_from_worker_process(drain: Drain | None, timeout_s: float | None) -> None:
    """Ask the parent in a worker process, where the app is a copy that never starts; else nothing runs."""
    from ehkafka.workers.processes import child  # noqa: PLC0415 - multiprocessing

    if child.stop_parent is not None:
        child.stop_parent(drain, timeout_s)
