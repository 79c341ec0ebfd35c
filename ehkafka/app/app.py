"""The app: what was registered with its decorators (`registration`), and the life cycle around its runs.

Knows a `Run` and nothing below it. All methods may be called from any thread unless said otherwise.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ehkafka.app.configuration import Configurable, Configuration
from ehkafka.app.entering import Entrance, InThread, StartCaller
from ehkafka.app.life import Life
from ehkafka.app.registration import ALONE, PARTITION_HOOKS, Registration
from ehkafka.app.web import Web
from ehkafka.run.ending import checked_until
from ehkafka.run.signals import refuse_while_importing
from ehkafka.run.spark_options import SparkOptions
from ehkafka.settings import check_timeout, drain_of
from ehkafka.settings.clock import REAL_CLOCK
from ehkafka.settings.option import takes_options
from ehkafka.wording.calling import plainly

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping
    from types import TracebackType
    from typing import Self, Unpack

    from pyspark.sql import SparkSession

    from ehkafka.app.entering import LoopChoice, OnEnd
    from ehkafka.app.keys import Keys
    from ehkafka.app.keywords import AppSettings, SparkKeywords
    from ehkafka.checkpoints.store_mirror import MirrorChoice
    from ehkafka.endpoint import Endpoint
    from ehkafka.errors import EhkafkaError
    from ehkafka.events.history import History
    from ehkafka.http.options import Http
    from ehkafka.outputs.producer import AppProducer
    from ehkafka.positions.start import Start
    from ehkafka.run.ending import UntilWord
    from ehkafka.run.options import AppOptions
    from ehkafka.run.run import Run, State
    from ehkafka.settings import Drain
    from ehkafka.settings.clock import Clock
    from ehkafka.spark.engine.run import SparkRun
    from ehkafka.telemetry.snapshot import Health, Snapshot


class App(Registration, Configurable):
    """A member of a consumer group: handlers, and one consumer that receives their records.

    - `group` (required): the consumer group.
    - `endpoint` (default `None`): the broker. `None`: environment variables name the broker when the app
      first needs it (`Endpoint.from_env`).
    - `start` (default `None`): where a partition without a commit of the group begins: `"earliest"`,
      `"latest"`, an offset, a datetime, a timedelta back, a mapping of partitions to these, or a callable
      `(topic, partition) -> position` (`ehkafka.positions.start` has the rules). `start` is required, here
      or in the configuration.
    - `mirror` (default `None`): a copy of the commits outside the broker, such as `BlobMirror`.
    - `http` (default `None`): where the running app serves probes, metrics, the page and actions: an
      address such as `"127.0.0.1:8080"`, or `ehkafka.http.Http(…)`. Needs the extra `[web]`.
    - `loop` (default `"own"`): where coroutines run. `"own"`: on event loops of the app, one for each
      async handler. `"caller"`: on the event loop that enters the app with `async with app`, so that
      handlers can use the loop's clients. With `"caller"`, enter the app only with `async with`.
    - `on_end` (default `"raise"`): what happens at an error that ends the app. `"raise"`: the block raises
      the error at once (`async with` cancels the task; in a `with` block, `wait()` raises the error, also
      for an outer app). `"signal"`: the app sends SIGTERM to its own process, so that a web server stops. A
      function: the app calls it with the error. The end of the block, and `run()`, always raise the error.
    - `**settings`: the fields of `ehkafka.settings.Settings`: commits, limits, stop, health, and
      librdkafka's properties as `consumer={…}`.

    Raises `ConfigurationError` if an argument is wrong.
    """

    @plainly
    def __init__(
        self,
        *,
        group: str,
        endpoint: Endpoint | None = None,
        start: Start | None = None,
        mirror: MirrorChoice | None = None,
        http: str | Http | None = None,
        loop: LoopChoice = "own",
        on_end: OnEnd = "raise",
        **settings: Unpack[AppSettings],
    ) -> None:
        super().__init__()
        self._configuration = Configuration(group, endpoint, start, settings)
        # What judges a run; set by tests.
        self._history: History | None = None
        self._mirror = None if mirror is None else _checked_mirror(mirror)
        self._clock: Clock = REAL_CLOCK
        self._life = self._lived(http, Entrance(loop, on_end))

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
        """Start the app, wait until the app has ended, and raise the error that ended the app.

        In the main thread, SIGINT and SIGTERM stop the app: the first signal drains, the second exits at
        once. If a signal comes during the start, the start ends first; a second signal, or a first signal
        while the app waits for the broker or a token, raises `KeyboardInterrupt`. SIGUSR1 logs the state.

        - `until` (default `None`): `"caught_up"` ends the run when all records that were in the logs at the
          start are handled and committed. Raises `UnfinishedError` if some of these records still wait.
        - `settle_s` (seconds, default `60.0`): how long such records may wait.

        Several processes (`docs/guides/all-cores.md` has the rules)

        - `members` (default `None`): the number of processes to start, each with the app as a member of the
          group; `"auto"`: one for each core. This process then only supervises the members.
        - `hung_s` (seconds, default `None`): after how long a member that is not live is restarted.
        - `members_min` (default `None`): if fewer members are ready, `/ready` fails. `None`: 1.

        Shown

        - `health_file` (default `None`): a file that the app, or each member, touches every few seconds
          while it is live.
        - `http` (default `None`): as `App(http=…)`, for this run and later runs.
        """
        refuse_while_importing()
        life = self._life
        life.entrance.refuse_without_loop("run()")
        life.web.take(http)
        ends = checked_until(until, settle_s)
        if members is None and hung_s is None and members_min is None:
            life.run_here(ends, health_file)
            return
        asked = {"members": members, "hung_s": hung_s, "members_min": members_min, "health_file": health_file}
        life.run_members({**asked, "until": until, "settle_s": settle_s}, self._configuration.laid_over())

    @plainly
    @takes_options(SparkOptions)
    def run_on_spark(self, spark: SparkSession, **options: Unpack[SparkKeywords]) -> SparkRun:
        """Run the handlers inside the tasks of a Spark query, and return at once.

        Order per key, retries, dead letters and outputs work as in `run()`. The app commits to the group and
        the mirror after each finished batch. Raises `ConfigurationError` if the app cannot run on Spark, and
        `GroupInUseError` if a consumer uses the group.

        - `spark` (required): the `SparkSession` of the driver.
        """
        refuse_while_importing()
        from ehkafka.spark.engine.start import start_on_spark  # noqa: PLC0415 - not for an app that runs here

        self._life.entrance.refuse_on_spark((*self._hooks["on_start"], *self._hooks["on_stop"]))
        return self._life.start_elsewhere(lambda app: start_on_spark(app, spark, SparkOptions(**options)))

    def start(self) -> None:
        """Connect to the broker, start the threads, subscribe, and return. Raises an error if that fails."""
        self._life.entrance.refuse_without_loop("start()")
        self._life.start(StartCaller)

    def __enter__(self) -> Self:
        entrance = self._life.entrance
        entrance.refuse_without_loop("`with app`")
        self._life.start(lambda: InThread(lambda: self._life.run.failure, entrance.on_end))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (entered := self._life.entrance.entered) is not None:
            entered.leave()
        self.stop()

    async def __aenter__(self) -> Self:
        # Only programs with a loop of their own need asyncio here.
        from ehkafka.app.lifespan import entered  # noqa: PLC0415

        await entered(self._life, self.stop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from ehkafka.app.lifespan import left  # noqa: PLC0415 - likewise

        await left(self._life, self.stop)

    @plainly
    def stop(self, *, drain: Drain | bool | None = None, timeout_s: float | None = None) -> None:
        """Stop the app, wait until the app has ended, and raise the error that ended the app.

        The app receives no more records. The next owner gets the records that never started, and the keys
        that wait for a retry or are on hold; a log line names these (`RecordsLeft`).

        - `drain` (default `None`): the records to finish first. `"started"`: started records, and earlier
          records of their partitions if time allows, so that the next owner repeats no record (otherwise the
          commits' metadata list the records that finished out of order). `"all"`, or True: all received
          records. `"running"`, or False: the running records. None: the setting `drain`.
        - `timeout_s` (seconds, default `None`): the time limit for these records, above 0. None: the setting
          `stop_s`.

        Raises `UnfinishedError` if a started record was not finished in time, if the last commit failed, or
        if finished records could not be saved. An app that does not run stays as it is. In code that the app
        runs (handlers, hooks, callables, functions for dead letters; also in worker processes), `stop`
        requests the stop and returns at once.
        """
        check_timeout(timeout_s, "stop")
        self._life.stop(None if drain is None else drain_of(drain), timeout_s)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the app has ended by itself; return True then. `stop` raises the error that ended it.

        - `timeout_s` (seconds, default `None`): after how long to return False. None: no limit.
        """
        check_timeout(timeout_s, "wait")
        return self._life.wait(timeout_s)

    @plainly
    def resize(self, handler: str, *, workers: int) -> None:
        """Change a handler's number of workers while the app runs.

        New threads run `on_worker_start` before `resize` returns; surplus threads end when they are idle, or
        after their call. The number stays until the stop, also with `workers="auto"`.

        - `handler` (required): the name of the handler's function or class.
        - `workers` (required): the new number of workers, 1 or more.

        If `on_worker_start` raises an error, or a `ConfigurationError` is raised, the number is unchanged.
        """
        with self._life.lock:
            self._life.run.resize(handler, workers)

    # --- what it shows -----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The app's state: `new`, `starting`, `running`, `stopping` or `stopped`."""
        return self._life.state

    @property
    def current_run(self) -> Run:
        """Inner: the run of this moment, or the last one, as the HTTP side, commands and members see it."""
        return self._life.run

    def snapshot(self) -> Snapshot:
        """Return an immutable picture of the app as it is now. Takes microseconds per unfinished record.

        With members, the snapshot has each member and the sums over all members. A member that does not
        answer within a second is shown as in its last answer.
        """
        return self.current_run.snapshot()

    def health(self) -> Health:
        """Return whether all is well. If not, each reason names a place and what it waits for."""
        return self.current_run.health()

    @property
    def keys(self) -> Keys:
        """The keys that hold a commit, and actions on them; see `Keys`."""
        from ehkafka.app.keys import Keys  # noqa: PLC0415 - not every program asks

        return Keys(lambda: self.current_run)

    def measure(self) -> None:
        """Measure from now on how long handlers take; `snapshot().handlers` has the times, for metrics.

        `ehkafka.metrics` calls this method. It slows quick handlers by a few percent, and cannot be undone.
        """
        self._life.measure()

    def log_state(self, why: str = "log_state() was called") -> None:
        """Log the snapshot and the stacks of busy workers (`StateReport`). The app must run.

        In a supervisor, each member logs its own state.

        - `why` (default `"log_state() was called"`): the reason in the log line.
        """
        self.current_run.log_state(why)

    @cached_property
    def producer(self) -> AppProducer:
        """Sends messages without a record: `app.producer.send("topic", value)`, from `on_start` to `on_stop`.

        The client is opened at the first message. For results of a handler, use outputs (`to=`) instead: the
        app commits a record only after the broker has acknowledged the record's outputs.
        """
        from ehkafka.outputs.producer import AppProducer  # noqa: PLC0415 - few apps send any

        return AppProducer(lambda: self._life.own_producer())  # noqa: PLW0108 - a test has another life

    @property
    def mirror(self) -> MirrorChoice | None:
        """Inner: the mirror that the app was given."""
        return self._mirror

    @property
    def http(self) -> Http | None:
        """Inner: where it serves, of `App(http=…)` or `run(http=…)`; None without either."""
        return self._life.web.options

    @property
    def http_app(self) -> Any:
        """The app's page as an ASGI application, to mount in your own web app. Needs the extra `[web]`.

        Mount it before the app starts. Each client of your web app can open its paths. Actions and
        the page need the token, except that at a loopback address in `App(http=…)` the page needs none.
        """
        return self._life.web.site.application

    # --- inside ------------------------------------------------------------------------------------

    @cached_property
    def _client_number(self) -> int:
        from ehkafka.endpoint.client_name import next_number  # noqa: PLC0415 - with the engine

        return next_number()

    def _options(self) -> AppOptions:
        from ehkafka.intake.hook_threads import PartitionHooks  # noqa: PLC0415 - with the engine
        from ehkafka.run.options import AppOptions  # noqa: PLC0415 - likewise

        alone = {name: functions[-1] for name in ALONE if (functions := self._hooks[name])}
        return AppOptions(
            endpoint=self.endpoint,
            settings=self.settings,
            specs=tuple(self._specs),
            middleware=tuple(self._hooks["middleware"]),
            partition_hooks=PartitionHooks(*map(alone.get, PARTITION_HOOKS)),
            on_error=alone.get("on_error"),
            on_start=tuple(self._hooks["on_start"]),
            on_stop=tuple(self._hooks["on_stop"]),
            worker_set_up=alone.get("on_worker_start"),
            worker_tear_down=alone.get("on_worker_stop"),
            event_hooks=(*self._event_hooks, *self._life.web.hooks),
            history=self._history,
            mirror=self._mirror,
            clock=self._clock,
            client_number=self._client_number,
        )

    def _lived(self, http: object, entrance: Entrance) -> Life:
        named = lambda: (self.settings.group, self._configuration.endpoint_name)  # noqa: E731 - one line
        return Life(self, self._options, named, Web(self, http), entrance)

    @contextmanager
    def _in_test(
        self,
        endpoint: Endpoint,
        settings: Mapping[str, object],
        history: History,
        clock: Clock,
        *,
        has_http: bool,
    ) -> Iterator[None]:
        """Run the app by other settings while the block lasts; afterwards it is as before. For `testing`."""
        with self._life.lock:
            self._life.must_be_startable()
            kept = vars(self).copy()
            self._configuration = self._configuration.in_test(endpoint, settings)
            # All topics are new: what is there is what the test sends, from the first record on.
            self._specs = [replace(spec, start=None) for spec in self._specs]
            self._history = history
            self._mirror = None  # it lies outside of the test
            self._clock = clock
            # The test raises what ends the app.
            entrance = Entrance(kept["_life"].entrance.loop, _nothing)
            self._life = self._lived(self.http if has_http else None, entrance)
            self._life.measures = kept["_life"].measures
        try:
            yield
        finally:
            with kept["_life"].lock:
                vars(self).update(kept)


def _nothing(error: EhkafkaError) -> None:
    """Do nothing about what ends the app."""


def _checked_mirror(mirror: MirrorChoice) -> MirrorChoice | None:
    from ehkafka.checkpoints.store_mirror import checked_choice  # noqa: PLC0415 - for apps with a mirror

    return checked_choice(mirror)
