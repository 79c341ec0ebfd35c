"""A run in several processes: the part of `App` that makes it the supervisor of members.

The members import the app for themselves; what this one holds is only read. Main thread, but for
`_stop_members`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.run import signals

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from ehkafka.app.configuration import Configuration
    from ehkafka.events import Event
    from ehkafka.http.noted import Noted
    from ehkafka.http.options import Http
    from ehkafka.http.site import Site
    from ehkafka.members.supervisor import Supervisor
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Drain


class Supervised:
    """What an app does when it runs as members in processes of their own."""

    _configuration: Configuration
    # Of the last run with members; then this process runs nothing itself. Main thread, read by any.
    _supervisor: Supervisor | None = None
    # See `Web`.
    _http: Http | None
    _site: Site | None
    # See `App.measure`.
    _measures: bool = False

    @property
    def registered(self) -> tuple[str, ...]:
        """What was registered, in words."""
        raise NotImplementedError

    def _noted_by_members(self) -> Sequence[Noted]:
        """Return the journals of this process's members; none without a supervisor."""
        return () if self._supervisor is None else self._supervisor.journals.read()

    def _is_live(self) -> bool:
        raise NotImplementedError

    @contextmanager
    def _shown_live(self, path: str | os.PathLike[str] | None) -> Iterator[None]:
        """Touch the file while the block runs and the app is live; without a path nothing."""
        if path is None:
            yield
            return
        from ehkafka.run.health_file import touched  # noqa: PLC0415 - for those who want one

        with touched(path, self._is_live):
            yield

    def _run_members(
        self,
        members: object,
        options: AppOptions,
        serving: Event | None,
        *,
        hung_s: float | None,
        members_min: int | None,
        health_file: str | os.PathLike[str] | None,
        run: Mapping[str, Any],
    ) -> None:
        """Start the members and look after them until all have ended. Raises what ended them."""
        # Not for an app that runs in one process.
        from ehkafka.events import AppStopped  # noqa: PLC0415
        from ehkafka.members.commands import StoppedEarly, caught_early  # noqa: PLC0415
        from ehkafka.members.count import checked_count  # noqa: PLC0415
        from ehkafka.members.opening import Wanted, plan_of  # noqa: PLC0415
        from ehkafka.members.plan import checked_hung_s, checked_members_min  # noqa: PLC0415
        from ehkafka.members.reference import reference_to  # noqa: PLC0415
        from ehkafka.members.supervisor import Supervisor  # noqa: PLC0415
        from ehkafka.run.health_file import HealthFile  # noqa: PLC0415
        from ehkafka.telemetry.bus import EventBus  # noqa: PLC0415

        if members is None:
            raise ConfigurationError(
                "hung_s and members_min are for members: add members=2, or leave them out."
            )
        count, wait_s = checked_count(members), checked_hung_s(hung_s)
        _must_be_supervisor()
        wanted = Wanted(
            count=count,
            hung_s=wait_s,
            members_min=checked_members_min(members_min, count),
            health_file=None if health_file is None else HealthFile(health_file),
            # They serve nothing: their owner blobs advertise this one's page.
            run={**run, "http": self._http},
            reference=reference_to(self),
            laid=self._configuration.laid_over(),
            registered=self.registered,
            keeps_journal=self._site is not None,
        )
        bus = EventBus(options.event_hooks)
        bus.start()
        if serving is not None:
            bus.emit(serving)
        try:
            # Also between these: the supervisor's own handlers are laid over.
            with caught_early():
                plan = plan_of(options, wanted, bus.emit)
                self._supervisor = Supervisor(plan, bus)
                self._supervisor.measures = self._measures
                self._supervisor.run()
        except StoppedEarly:
            bus.emit(AppStopped(0, 0))
        finally:
            bus.close(2.0)

    def _stop_members(self, drain: Drain | None, timeout_s: float | None) -> None:
        """Have all members stop, and wait for that unless the caller is one of whom the stop waits for."""
        supervisor = self._supervisor
        assert supervisor is not None
        supervisor.request_stop("stop() was called", drain, timeout_s)
        here = threading.current_thread()
        if here is threading.main_thread() or supervisor.owns(here):
            return
        supervisor.wait()
        if supervisor.failure is not None:
            raise supervisor.failure


def _must_be_supervisor() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError(
            "members=: only the main thread can run members, since it takes the signals, and since the "
            "kernel ends members with the thread that has started them. Call app.run(members=…) there."
        )
    if signals.orders is not None:
        raise ConfigurationError(
            "members=: this process is a member itself. Put app.run(members=…) under "
            "`if __name__ == '__main__':`."
        )
