"""What an app shows of itself: the part of `App` that only reads its run, or asks its members. Any thread."""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ehkafka.app.configuration import Configuration
    from ehkafka.app.keys import Keys
    from ehkafka.members.supervisor import Supervisor
    from ehkafka.run.runtime import Runtime
    from ehkafka.run.steer.action import ActionResult
    from ehkafka.run.steer.keys import KeyState
    from ehkafka.settings import Settings
    from ehkafka.telemetry.snapshot import Health, Snapshot


class Shown:
    """Snapshot, health and liveness of one app."""

    _configuration: Configuration
    _runtime: Runtime | None
    _supervisor: Supervisor | None
    # Whether this run and those to come count how long calls take. Set once, by any thread.
    _measures = False

    @property
    def settings(self) -> Settings:
        """The settings in effect."""
        raise NotImplementedError

    @property
    def state(self) -> str:
        """Where the app is in its life."""
        raise NotImplementedError

    def _check_process(self) -> None:
        raise NotImplementedError

    @cached_property
    def _client_number(self) -> int:
        from ehkafka.endpoint.client_name import next_number  # noqa: PLC0415 - with the engine

        return next_number()

    def snapshot(self) -> Snapshot:
        """Return an immutable picture of the app as it is now. Takes microseconds per unfinished record.

        With members it is the sum over them, and has each; one that does not answer within a second is shown
        as it answered last.
        """
        self._check_process()
        if self._supervisor is not None:
            return self._supervisor.snapshot()
        runtime = self._runtime
        if runtime is None:
            from ehkafka.telemetry.snapshot import Snapshot  # noqa: PLC0415 - few ask an app that never ran

            endpoint = self._configuration.endpoint_name
            return Snapshot.empty(self.settings.group, endpoint, self.state, time.time())
        from ehkafka.run.observation import snapshot_of  # noqa: PLC0415 - not every program asks

        return snapshot_of(runtime, self.state)

    def measure(self) -> None:
        """Have it counted from now on how long handlers take: `snapshot().handlers` has it, for metrics.

        `ehkafka.metrics` calls this. It costs quick handlers a few percent, and cannot be taken back.
        """
        self._measures = True
        if self._supervisor is not None:
            self._supervisor.measures = True
        elif self._runtime is not None:
            self._runtime.measure()

    def _measured(self, runtime: Runtime) -> Runtime:
        if self._measures:
            runtime.measure()
        return runtime

    def health(self) -> Health:
        """Return whether all is well, else the reasons: each names where and what it waits for."""
        self._check_process()
        if self._supervisor is not None:
            return self._supervisor.health()
        runtime = self._runtime
        snapshot = self.snapshot()
        if runtime is None:
            from ehkafka.telemetry.snapshot import Health  # noqa: PLC0415 - as above

            return Health((f"The app is {snapshot.state}.",))
        from ehkafka.run.observation import health_of_run  # noqa: PLC0415 - as above

        return health_of_run(runtime, snapshot)

    @property
    def keys(self) -> Keys:
        """The keys that hold a commit, and actions on them; see `Keys`."""
        from ehkafka.app.keys import Keys  # noqa: PLC0415 - as above

        return Keys(self._listed_keys, self._act)

    def _listed_keys(self, *, values: bool = False) -> list[KeyState]:
        self._check_process()
        if self._supervisor is not None:
            return self._supervisor.keys(values=values)
        runtime = self._runtime
        return [] if runtime is None or runtime.is_done else runtime.steering.keys(values=values)

    def _act(self, asked: Mapping[str, Any]) -> ActionResult:
        """Carry out an action that is given as plain values. Raises `ActionRefusedError`."""
        from ehkafka.app.keys import not_running  # noqa: PLC0415 - as above
        from ehkafka.run.steer.action import Action  # noqa: PLC0415 - as above

        self._check_process()
        action = Action.of(asked)
        if self._supervisor is not None:
            return self._supervisor.act(action)
        runtime = self._runtime
        if runtime is None or runtime.is_done or runtime.is_polling is not True:
            raise not_running(self.state)
        return runtime.steering.act(action)

    def log_state(self, why: str = "log_state() was called") -> None:
        """Log the snapshot and where each busy worker is (`StateReport`); of an app that runs.

        In the supervisor of members each of them does, in its own process.
        """
        if self._supervisor is not None:
            self._supervisor.request_reports(why)
        elif self._runtime is not None:
            from ehkafka.run.reports import report_state  # noqa: PLC0415 - few ask

            report_state(self._runtime, self.state, why)

    def not_live(self) -> tuple[str, ...]:
        """Return what is wrong with the app that only a restart of its process cures; mostly nothing."""
        if self._supervisor is not None:
            return self._supervisor.not_live()
        if self._runtime is None:
            return ()
        from ehkafka.run.liveness import not_live  # noqa: PLC0415 - few ask

        return not_live(self._runtime)

    def not_started(self) -> tuple[str, ...]:
        """Return what the app waits for before it is a member of its group; nothing from then on."""
        if self._supervisor is not None:
            return self._supervisor.not_ready()
        if self._runtime is None or self.state in ("new", "stopped"):
            return (f"The app is {self.state}.",)
        from ehkafka.run.liveness import not_started  # noqa: PLC0415 - as above

        return not_started(self._runtime)

    def not_ready(self) -> tuple[str, ...]:
        """Return why the app does not do its work now: no broker, no group, a stop. Records are no reason."""
        if self._supervisor is not None:
            return self._supervisor.not_ready()
        if self._runtime is None or self.state in ("new", "stopped"):
            return (f"The app is {self.state}.",)
        from ehkafka.run.liveness import not_ready  # noqa: PLC0415 - as above

        return not_ready(self._runtime)

    def _is_live(self) -> bool:
        return self.state in ("running", "stopping") and not self.not_live()
