"""The life cycle of an app: starts a run, waits for its end, stops it, in this process or in members.

Holds the run of the moment, or the last one. Any thread, but for `run_here` and `run_members`.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ehkafka.errors import ConfigurationError, EngineError
from ehkafka.run.health_file import touched
from ehkafka.run.run import PlainRun
from ehkafka.run.signals import refuse_while_importing, reports_asked, stops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.app.app import App
    from ehkafka.app.entering import Entrance, StartCaller
    from ehkafka.app.web import Web
    from ehkafka.members.supervisor import Supervisor
    from ehkafka.outputs.own_producer import OwnProducer
    from ehkafka.run.ending import RunUntil
    from ehkafka.run.options import AppOptions
    from ehkafka.run.run import Run, State
    from ehkafka.run.runtime import Runtime
    from ehkafka.settings import Drain
    from ehkafka.workers.tasks.shared import SharedLoop

Started = TypeVar("Started", bound="Run")
_INSTEAD = (
    "return the output from the handler (to=…), or open your own confluent_kafka.Producer in on_worker_start."
)


class Life:
    """Of one app; `options` returns what a run is made of, `named` the group and the endpoint's name."""

    def __init__(
        self,
        app: App,
        options: Callable[[], AppOptions],
        named: Callable[[], tuple[str, str]],
        web: Web,
        entrance: Entrance,
    ) -> None:
        self._app = app
        self._options = options
        self.web = web
        self.entrance = entrance
        # Guards the life cycle, not the data: two threads may start and stop.
        self.lock = threading.RLock()
        self._state: State = "new"
        self._run: Run = PlainRun(lambda: (*named(), self._state))
        self._process_id = os.getpid()
        # Whether this run and those to come count how long calls take. Set once, by any thread.
        self.measures = False

    # --- where it is -------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Where the app is in its life."""
        return self._state if self._state in ("starting", "stopped") else self._run.state

    @property
    def run(self) -> Run:
        """The run of this moment, or the last one."""
        self.check_process()
        return self._run

    def start_elsewhere(self, start: Callable[[AppOptions], Started]) -> Started:
        """Show a run of another engine, which ends by itself; serve what `http=` asks for meanwhile."""
        with self.lock, ExitStack() as undo:
            self.must_be_at_rest()
            undo.callback(self.web.close)
            self.web.serve()
            parts = self._options()
            # The first one is called last, after those of the user.
            run = start(replace(parts, on_stop=(self.web.close, *parts.on_stop)))
            undo.pop_all()
            self._run, self._state = run, "new"
        return run

    def measure(self) -> None:
        """Have it counted from now on how long calls of handlers take."""
        self.measures = True
        self._run.measure()

    def must_be_new(self, what: str) -> None:
        """Refuse to register something while the app runs. Raises `ConfigurationError`."""
        if self._state not in ("new", "stopped"):
            raise ConfigurationError(f"The app is {self._state}: register the {what} before the start.")

    def must_be_at_rest(self) -> None:
        """Refuse a second start. Raises `ConfigurationError`."""
        if self._state == "running" and self.state == "stopped":
            raise ConfigurationError(
                "The app has ended by itself. Call stop() before the next start: stop() runs the on_stop "
                "functions and raises the error that ended the app."
            )
        if self.state not in ("new", "stopped"):
            raise ConfigurationError(
                f"The app is {self.state}, so it cannot be started now: start the app once, or start it "
                f"again after it has stopped."
            )

    def must_be_startable(self) -> None:
        """Refuse a start that cannot be. Raises `ConfigurationError`."""
        self.check_process()
        self.must_be_at_rest()
        if not self._app.topics:
            raise ConfigurationError("The app has no handler; register one with @app.handler('topic').")

    def check_process(self) -> None:
        """Refuse what a forked child cannot do. Raises `ConfigurationError`."""
        if os.getpid() != self._process_id:
            if self._state == "new":
                self._process_id = os.getpid()
            else:
                raise ConfigurationError(
                    "The process forked after the app was started, so the child process has none of the "
                    "app's threads and sockets. Make the app in the child process, or start the app after "
                    "the fork."
                )

    def own_producer(self) -> OwnProducer:
        """Return what `app.producer` sends with in this run. Raises `ConfigurationError`."""
        if _stop_of_parent() is not None:
            raise ConfigurationError(f"app.producer does not exist in a worker process: {_INSTEAD}")
        messages = self.run.own_producer()
        if messages is None:
            on_spark = (
                (f" On Spark app.producer does not exist: {_INSTEAD}") if "pyspark" in sys.modules else ""
            )
            raise ConfigurationError(
                f"app.producer cannot send, because the app is {self.state}: use it from on_start to "
                f"on_stop.{on_spark}"
            )
        return messages

    # --- in this process ---------------------------------------------------------------------------

    def start(
        self,
        enter: Callable[[], StartCaller | None],
        loop: SharedLoop | None = None,
        until: RunUntil | None = None,
        made: Callable[[Runtime], object] = bool,
    ) -> None:
        """Start a run. `made` gets it before it starts; who then enters hears of its failure."""
        refuse_while_importing()
        with self.lock:
            self.must_be_startable()
            self._state, self.entrance.entered = "starting", None
            try:
                with ExitStack() as undo:
                    # Bound before anything starts: a port that is in use ends the start with nothing done.
                    undo.callback(self.web.close)
                    serving = self.web.bind()
                    self._run = run = self._runtime(loop, until)
                    run.ending.on_change = lambda: self.entrance.changed(run)
                    made(run)
                    run.start()
                    undo.pop_all()
                self.entrance.entered = enter()
            except BaseException:
                self._state = "stopped"
                raise
            self._state = "running"
            self.entrance.changed(run)  # it may have failed before anything was inside
            if serving is not None:
                run.bus.emit(serving)

    def _runtime(self, loop: SharedLoop | None, until: RunUntil | None) -> Runtime:
        # The engine is most of the package: an app that is only made, as by commands and workers, loads none.
        from ehkafka.run.runtime import Runtime  # noqa: PLC0415

        run = Runtime(replace(self._options(), until=until, shared_loop=loop))
        if self.measures:
            run.measure()
        return run

    def run_here(self, until: RunUntil | None, health_file: str | os.PathLike[str] | None) -> None:
        """Start a run, wait for its end, and raise what ended it, if it was an error. Takes signals."""
        made: list[Runtime] = []
        # What a signal that came during the start asks for.
        early: list[tuple[str, Drain | None, float | None]] = []

        def stop(name: str, drain: Drain | None = None, timeout_s: float | None = None) -> None:
            early[:] = [(name, drain, timeout_s)]
            for run in made:
                run.stop_by_signal(name, drain, timeout_s)

        def leave() -> None:
            if not made:
                raise KeyboardInterrupt
            made[0].exit_now()

        # Before the start: from its last moments on records are handled, and a signal must not cut them off.
        with stops(stop, leave), reports_asked() as is_asked, self._shown_live(health_file):
            self.start(lambda: None, until=until, made=made.append)
            if early:
                stop(*early[0])
            # In slices: a wait without end would keep signals from being handled on some platforms.
            while not self._run.wait(0.5):
                if is_asked():
                    self._run.log_state("SIGUSR1")
        self._finish()
        # Another thread's `stop` may have been quicker, and raised it there: a program that ends by what
        # `run` does must not take a failure for a good end.
        if self._run.failure is not None:
            raise self._run.failure

    @contextmanager
    def _shown_live(self, path: str | os.PathLike[str] | None) -> Iterator[None]:
        """Touch the file while the block runs and the app is live; without a path nothing."""
        if path is None:
            yield
            return
        with touched(path, lambda: self.state in ("running", "stopping") and not self._run.not_live()):
            yield

    # --- in members --------------------------------------------------------------------------------

    def run_members(self, asked: Mapping[str, object], laid: tuple[Any, dict[str, Any]]) -> None:
        """Start members and look after them until all have ended. Raises what ended them.

        `asked` is what `App.run` was given, `laid` what was laid over the settings in the app's code.
        """
        from ehkafka.app.supervised import supervise  # noqa: PLC0415 - not for an app in one process

        def made(supervisor: Supervisor) -> None:
            supervisor.asking.measures = self.measures
            self.web.of_members = supervisor.asking.states
            self._run, self._state = supervisor, "running"

        with self.lock:
            self.must_be_startable()
            self._state = "starting"
        try:
            serving = self.web.bind()
            options = self._options()
            supervise(self._app, options, asked, laid, made, keeps_journal=self.web.has_site, serving=serving)
        finally:
            self.web.close()
            self._state = "stopped"

    # --- to the end --------------------------------------------------------------------------------

    def stop(self, drain: Drain | None, timeout_s: float | None) -> None:
        """Stop and wait for the end; raise what ended the app, if it was an error."""
        self.check_process()
        run = self._run
        if type(run) is PlainRun:
            if (stop := _stop_of_parent()) is not None:
                stop(drain, timeout_s)
            return
        if self._state == "stopped":
            return
        limit_s = run.request_stop("stop() was called", drain=drain, timeout_s=timeout_s)
        if run.owns(threading.current_thread()):
            return  # it would wait for itself
        if self.entrance.entered is not None:
            self.entrance.entered.is_inside = False  # what comes from now on is raised here
        if not run.wait(limit_s):
            raise EngineError(f"The app did not end within {limit_s:.0f} s. Please report this error.")
        self._finish()

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the app has ended by itself; True when it has."""
        self.check_process()
        # A start that failed leaves a run that never ran.
        return self._state == "stopped" or self.entrance.wait(self._run, timeout_s)

    def _finish(self) -> None:
        """Run the on_stop functions once and raise what ended the run, if it was an error."""
        with self.lock:
            if self._state == "stopped":
                return
            self._state = "stopped"
            try:
                self._run.finish()
            finally:
                self.web.close()
                if self._run.failure is not None:
                    raise self._run.failure


def _stop_of_parent() -> Callable[[Drain | None, float | None], None] | None:
    """Return what asks the parent to stop in a worker process, where the app is a copy that never starts."""
    return getattr(sys.modules.get("ehkafka.workers.processes.child"), "stop_parent", None)
