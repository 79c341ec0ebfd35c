"""A run in several processes: checks what was asked for, and makes this process the supervisor of members.

The members import the app for themselves; what this one holds is only read. Main thread.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ehkafka.errors import ConfigurationError
from ehkafka.events import AppStopped
from ehkafka.members.commands import StoppedEarly, caught_early
from ehkafka.members.count import checked_count
from ehkafka.members.opening import Wanted, checked_hung_s, checked_members_min, plan_of
from ehkafka.members.reference import reference_to
from ehkafka.members.supervisor import Supervisor
from ehkafka.run import signals
from ehkafka.run.health_file import HealthFile
from ehkafka.telemetry.bus import EventBus

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.app.app import App
    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.run.options import AppOptions


def supervise(
    app: App,
    options: AppOptions,
    asked: Mapping[str, object],
    laid: tuple[Endpoint | None, dict[str, Any]],
    made: Callable[[Supervisor], None],
    *,
    keeps_journal: bool,
    serving: Event | None,
) -> None:
    """Start the members and look after them until all have ended. Raises what ended them.

    `asked` is what `App.run` was given; `made` gets the supervisor before it starts any.
    """
    wanted = _wanted(app, asked, laid, keeps_journal=keeps_journal)
    bus = EventBus(options.event_hooks)
    bus.start()
    if serving is not None:
        bus.emit(serving)
    try:
        # Also between these: the supervisor's own handlers are laid over.
        with caught_early():
            supervisor = Supervisor(plan_of(options, wanted, bus.emit), bus)
            made(supervisor)
            supervisor.run()
    except StoppedEarly:
        bus.emit(AppStopped(0, 0))
    finally:
        bus.close(2.0)


def _wanted(
    app: App,
    asked: Mapping[str, Any],
    laid: tuple[Endpoint | None, dict[str, Any]],
    *,
    keeps_journal: bool,
) -> Wanted:
    if asked["members"] is None:
        raise ConfigurationError(
            "hung_s and members_min need members=: add members=2, or leave hung_s and members_min out."
        )
    count, health_file = checked_count(asked["members"]), asked["health_file"]
    wait_s = checked_hung_s(asked["hung_s"])
    _must_be_supervisor()
    return Wanted(
        count=count,
        hung_s=wait_s,
        members_min=checked_members_min(asked["members_min"], count),
        health_file=None if health_file is None else HealthFile(health_file),
        run={name: asked[name] for name in ("until", "settle_s")},
        reference=reference_to(app),
        laid=laid,
        registered=app.registered,
        keeps_journal=keeps_journal,
    )


def _must_be_supervisor() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise ConfigurationError(
            "members= works only in the main thread, because that thread receives the signals. Call "
            "app.run(members=…) in the main thread."
        )
    if signals.orders is not None:
        raise ConfigurationError(
            "members=: this process is already a member, so it cannot start members. Put "
            "app.run(members=…) under `if __name__ == '__main__':`."
        )
