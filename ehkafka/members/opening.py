"""What a supervisor does before it starts a member: checks what was given, asks the broker, resets the group.

Called on the main thread. A broker that cannot be reached, a topic that is not there and a setting that
cannot work are exceptions here, once, and not in each member.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ehkafka.errors import ConfigurationError
from ehkafka.events import MembersAdvice
from ehkafka.handlers.output_types import check_output_types
from ehkafka.members.boot import boot_of
from ehkafka.members.cores import one_each, usable_cores
from ehkafka.members.count import members_to_start, usable_members
from ehkafka.recovery.wiring import check_recovery
from ehkafka.run.assembly import start_of
from ehkafka.run.reach import Reach, ends_of
from ehkafka.run.resetting import reset_group
from ehkafka.wording import counted
from ehkafka.workers.processes.option import Processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.members.count import Count
    from ehkafka.members.reference import Reference
    from ehkafka.positions.gap import LogBounds
    from ehkafka.records import TopicPartition
    from ehkafka.run.health_file import HealthFile
    from ehkafka.run.options import AppOptions
    from ehkafka.settings import Settings

# "0" lets members share all cores, "1" is what it does anyway.
PIN: Final = "EHKAFKA_PIN_MEMBERS"
# From the start of a process until it has joined its group; measured 1 to 3 s on a small machine.
START_S: Final = 5.0
_HUNG_S_MIN: Final = 1.0
_HUNG_S_MAX: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What `App.run` was given, and where its app is."""

    count: Count
    # None: members that are not live are left alone.
    hung_s: float | None
    # With fewer that are ready the supervisor is not.
    members_min: int
    health_file: HealthFile | None
    run: Mapping[str, Any]
    reference: Reference
    laid: tuple[Endpoint | None, dict[str, Any]]
    registered: tuple[str, ...]
    # What members note is to be shown.
    keeps_journal: bool = False

    @property
    def has_end(self) -> bool:
        """Whether members end by themselves, once they have caught up."""
        return self.run.get("until") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersPlan:
    """One supervisor's members."""

    wanted: Wanted
    count: int
    settings: Settings
    endpoint_name: str
    # See `boot_of`.
    boot: Mapping[str, Any]


def plan_of(app: AppOptions, wanted: Wanted, emit: Callable[[Event], None]) -> MembersPlan:
    """Return what the supervisor is to do. Raises what is wrong."""
    settings = app.settings
    check_recovery(app.specs, settings.on_parked_full)
    check_output_types(app.specs)
    # Before the broker is asked: what cannot travel is wrong whatever that says.
    laid, of_endpoint = dict(wanted.laid[1]), wanted.laid[0]
    if settings.reset is not False:
        laid["reset"] = False  # done here, once; a name stands in the commits, which members carry on
    boot = boot_of(
        wanted.reference,
        laid=(of_endpoint, laid),
        instance_id=settings.instance_id,
        registered=wanted.registered,
        run=wanted.run,
        keeps_journal=wanted.keeps_journal,
    )
    partitions, session_s, ends = _asked(app, emit, wants_ends=wanted.has_end)
    usable = usable_members(partitions, settings.assignor)
    count = members_to_start(wanted.count, cores=usable_cores(), usable=usable)
    for one in advice(count, partitions, settings, session_s):
        emit(MembersAdvice(one))
    reset_group(app.endpoint, settings, app.topics, start_of(app), emit)
    loan = app.endpoint.lend_broker({*app.topics, *app.letter_topics})
    return MembersPlan(
        wanted=wanted,
        count=count,
        settings=settings,
        endpoint_name=app.endpoint.name,
        boot=boot | {"loan": loan, "ends": ends, "cores": _cores(app, count)},
    )


def _cores(app: AppOptions, count: int) -> tuple[int, ...]:
    """Return a core for each member, or none: worker processes need cores in addition to their member's."""
    wanted = os.environ.get(PIN, "1")
    if wanted not in {"0", "1"}:
        raise ConfigurationError(
            f"{PIN}={wanted!r:.40}: give 0 to let members share all cores, or 1 for one core per member."
        )
    has_processes = any(isinstance(spec.workers, Processes) for spec in app.specs)
    return one_each(count) if wanted == "1" and not has_processes else ()


def _asked(
    app: AppOptions, emit: Callable[[Event], None], *, wants_ends: bool
) -> tuple[dict[str, int], float, dict[TopicPartition, LogBounds]]:
    """Return what the broker says: each topic's partitions, the session time-out, where the logs end."""
    reach = Reach(app, emit)
    properties = reach.properties()
    session_s = int(properties["session.timeout.ms"]) / 1000
    # It joins no group: nothing is subscribed.
    consumer = reach.open(
        properties,
        on_error=lambda _consumer, _error: False,
        on_commit=lambda *_answer: None,
        throttle_cb=lambda _event: None,
    )
    partitions = {topic: count for topic, count in reach.partitions.items() if topic in app.topics}
    try:
        ends = ends_of(consumer, partitions, app.settings.connect_s) if wants_ends else {}
    finally:
        consumer.close()
    return partitions, session_s, ends


def checked_hung_s(given: object) -> float | None:
    """Return the time as it was given. Raises `ConfigurationError`."""
    if given is None:
        return None
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    if not is_number or not _HUNG_S_MIN <= given <= _HUNG_S_MAX:  # type: ignore[operator]
        raise ConfigurationError(
            f"hung_s={given!r:.80}: give seconds from {_HUNG_S_MIN:g} to {_HUNG_S_MAX:g}, or None to leave "
            "hung members running."
        )
    return float(given)  # type: ignore[arg-type]


def checked_members_min(given: object, count: object) -> int:
    """Return how many members must be ready. Raises `ConfigurationError`."""
    most = count if isinstance(count, int) else 1_000
    if given is None:
        return 1
    if type(given) is not int or not 0 <= given <= most:
        raise ConfigurationError(f"members_min={given!r:.80}: give a number from 0 to {count} (all members).")
    return given


def advice(count: int, partitions: Mapping[str, int], settings: Settings, session_s: float) -> Iterator[str]:
    """Yield what works otherwise than a person may expect, with the numbers."""
    usable = usable_members(partitions, settings.assignor)
    if count > usable:
        topics = ", ".join(
            f"{topic} has {counted(number, 'partition')}" for topic, number in partitions.items()
        )
        yield (
            f"{count - usable} of {count} members get no partition ({topics}): they are standbys, and take "
            f"over when another member stops. To run without standbys, set members={usable}."
        )
    restart_s = settings.stop_s + START_S
    if settings.instance_id is not None and restart_s > session_s:
        yield (
            f"With an instance_id a restarted member keeps its partitions only if it is back within the "
            f"session time-out of {session_s:g} s, but its stop may take stop_s={settings.stop_s:g} s and "
            f"its start about {START_S:g} s. Set session.timeout.ms to {1000 * restart_s:.0f} or more, or "
            "lower stop_s, so that a rolling restart (SIGHUP) moves no partition."
        )
