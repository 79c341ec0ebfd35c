"""Whether brokers answer, each leader of ours too, and what the group has given this member.

librdkafka tells in its statistics how long ago each broker answered anything, heartbeats included. A killed
broker is known at once by an error, a frozen or cut-off one only by this silence: the client itself notices
only when a request runs out of time, after a minute. Silence counts only while this process looked
(`watched_time`): statistics that come after it was stopped may include the stop, or be older. Written by the
poll thread, read from any thread.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.intake.watched_time import WatchedTime
from ehkafka.records import TopicPartition
from ehkafka.wording.line import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ehkafka.intake.owned import OwnedPartitions

_INTERVAL: Final = "statistics.interval.ms"
# Of all connections, since the client was opened; brokers' own counts are named otherwise.
_RECEIVED = re.compile(r'"rx_bytes": ?(\d+)')
_JOIN_STATE = re.compile(r'"join_state": ?"([^"]*)"')
# The group's coordinator answers these when every other member has come: that may take minutes.
_JOINING = ("wait-join", "wait-sync")
# The partitions that a broker leads, most of its part: topics' names have no braces.
_TOPPARS = re.compile(r'"toppars": ?(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})')
# Statistics so often in the time after which silence counts: an old one must not lengthen a restart.
_CHECKS: Final = 6


class Leader(NamedTuple):
    """The broker that a partition is fetched from, for people, and when it answered last."""

    name: str
    answered_s: float


@dataclass(frozen=True, slots=True)
class Statistics:
    """One text of statistics. `idle_s`: since the last answer of any broker; None without any.

    `up_s`: for how long the newest connection has been up; None without any. `socket_bytes`: received since
    the client was opened, over all connections. `leaders` are the brokers that partitions are fetched from,
    with these and the seconds since each answered last (infinite: it never did). `knows_brokers`: False where
    only the group's coordinator has an entry.
    """

    idle_s: float | None
    join_state: str
    up_s: float | None = None
    socket_bytes: int | None = None
    leaders: Sequence[tuple[str, float, Sequence[TopicPartition]]] = ()
    knows_brokers: bool = True


def read_statistics(text: str) -> Statistics:
    """Return what librdkafka's statistics say. The topics' part, most of it, is not read."""
    brokers = _brokers(text)
    group = text[max(0, text.rfind('"cgrp":')) :]
    # A broker that never answered has -1. A connection is up once the login was accepted.
    idles = [idle for one in brokers if (idle := one.get("rxidle", -1)) >= 0]
    ages = [one["stateage"] for one in brokers if one.get("state") == "UP" and "stateage" in one]
    state = _JOIN_STATE.search(group)
    received = _RECEIVED.search(group)
    return Statistics(
        min(idles) / 1e6 if idles else None,
        state[1] if state else "",
        min(ages) / 1e6 if ages else None,
        int(received[1]) if received else None,
        [_leader_of(one) for one in brokers if one.get("toppars")],
        not brokers or any(one.get("source") != "logical" for one in brokers),
    )


def _brokers(text: str) -> list[dict[str, Any]]:
    begin, end = text.find('"brokers":'), text.find('"topics":')
    # A thousand partitions are not read anew while their leaders stay.
    part = _TOPPARS.sub(lambda found: f'"toppars":{json.dumps(found[1])}', text[begin + 10 : end])
    try:
        brokers = list(json.loads(part.rstrip(", ")).values()) if 0 <= begin < end else []
        return [one | {"toppars": _partitions(one.get("toppars", "{}"))} for one in brokers]
    except (TypeError, ValueError):
        # librdkafka writes names as they are, quotes and braces too. An error must not leave its callback.
        return []


@lru_cache(maxsize=32)
def _partitions(toppars: str) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(where["topic"], where["partition"]) for where in json.loads(toppars).values())


def _leader_of(broker: Mapping[str, Any]) -> tuple[str, float, Sequence[TopicPartition]]:
    name, idle = f"broker {broker['nodeid']} ({broker['nodename']})", broker.get("rxidle", -1)
    return name, idle / 1e6 if idle >= 0 else math.inf, broker["toppars"]


class Contact:
    """When a broker answered last, and whether the group has given this member anything."""

    def __init__(self, clock: Callable[[], float], unreachable_s: float = 15.0) -> None:
        self._clock = clock
        self._watched = WatchedTime(clock, unreachable_s)
        self.unreachable_s = unreachable_s
        # When any broker answered last.
        self._answered_s = clock()
        # When a connection came up last, its login accepted.
        self.up_at_s = float("-inf")
        # When all connections were lost; None once an answer came since.
        self._down_s: float | None = None
        # Since when the client knows no broker: one that was starting has named none, and the client neither
        # asks again nor goes back to its bootstrap addresses (librdkafka's issue 5301, as of 2.16).
        self._stranded_since_s: float | None = None
        # Whose silence is reported.
        self._reported: frozenset[str] = frozenset()
        self._seen: tuple[float, ...] = ()
        # The group is settled and this is a member of it, as far as reported.
        self.is_member = False
        # The group has taken this member at some time, with or without a partition.
        self.has_joined = False
        # Since when all partitions are lost and the group has given none.
        self._lost_since_s: float | None = None
        self.lost_partitions = 0
        # Bytes received on all connections; None before the first statistics.
        self.socket_bytes: int | None = None
        # As of the last statistics; a partition without a leader keeps the one that it had. Replaced.
        self.leaders: Mapping[TopicPartition, Leader] = {}

    def with_statistics(self, properties: dict[str, Any]) -> Callable[[str], None]:
        """Have a client with these properties tell, often enough; return its `stats_cb`.

        One that the user gave is called, too.
        """
        given, often_ms = properties.pop("stats_cb", None), int(properties.get(_INTERVAL, 0))
        wanted_ms = round(1000 * min(5.0, max(0.1, self.unreachable_s / _CHECKS)))
        properties[_INTERVAL] = min(often_ms or wanted_ms, wanted_ms)
        if given is None:
            return self.take_statistics

        def take_both(text: str) -> None:
            self.take_statistics(text)
            given(text)

        return take_both

    def take_statistics(self, text: str) -> None:
        """Take what librdkafka tells now and then. Inside `consume()`."""
        statistics = read_statistics(text)
        now_s = self._clock()
        self._note_group(statistics.join_state)
        if statistics.socket_bytes is not None:
            self.socket_bytes = statistics.socket_bytes
        leaders = dict(self.leaders)
        for name, idle_s, partitions in statistics.leaders:
            leaders |= dict.fromkeys(partitions, Leader(name, now_s - idle_s))
        self.leaders = leaders
        if statistics.knows_brokers:
            self._stranded_since_s = None
        elif self._stranded_since_s is None:
            self._stranded_since_s = now_s
        if statistics.up_s is not None:
            self.up_at_s = max(self.up_at_s, now_s - statistics.up_s)
        if statistics.join_state in _JOINING and not self.is_unreachable:
            self._answered(now_s)  # no answer is owed yet
        elif statistics.idle_s is not None:
            self._answered(at_s := now_s - statistics.idle_s)
            if self._down_s is not None and at_s > self._down_s:
                self._down_s = None

    def _note_group(self, join_state: str) -> None:
        """Take where the group stands: a member that gets no partition learns it from nothing else."""
        self.is_member = join_state == "steady"
        self.has_joined |= self.is_member
        lost_s = self.lost_s
        if self.is_member and lost_s is not None and lost_s > self.unreachable_s / _CHECKS:
            self._lost_since_s, self.lost_partitions = None, 0

    def note_turn(self) -> None:
        """Hear that a turn of the poll loop begins: what has come until now is heard."""
        self._watched.note_turn()

    def check(self, *amounts: float) -> None:
        """Count acknowledged commits and throttling as answers, where an amount has changed.

        Not records: what was fetched before goes on arriving without any broker.
        """
        if amounts != self._seen:
            self._seen = amounts
            self._answered(self._clock())

    def note_down(self) -> None:
        """Hear that all connections are lost."""
        self._down_s = self._clock()

    def note_assigned(self) -> None:
        """Hear that the group has given partitions, or none."""
        self._lost_since_s, self.lost_partitions = None, 0
        self.has_joined = True
        self._answered(self._clock())

    def note_gone(self, partitions: int, *, left: int, lost: bool) -> None:
        """Hear that so many partitions were revoked or lost, and how many are left."""
        if not left:
            self.is_member = False
        if lost and not left:
            self.lost_partitions += partitions
            if self._lost_since_s is None:
                self._lost_since_s = self._clock()

    def new_silences(self, owned: OwnedPartitions, endpoint: str) -> list[str]:
        """Return what fell silent since the last look: all brokers, or a leader of our partitions."""
        found = dict(self._silences(owned, endpoint))
        reported, self._reported = self._reported, frozenset(found)
        return [text for name, text in found.items() if name not in reported]

    def _silences(self, owned: OwnedPartitions, endpoint: str) -> Iterator[tuple[str, str]]:
        if self.is_unreachable:
            text = (
                f"no broker of {endpoint} has answered for {self.silence_s:.0f} s: check that the brokers "
                "run and that this host still reaches them"
            )
            yield endpoint, text
        if self.is_cut_off:
            return
        silent: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        before_s = self._clock() - self.unreachable_s
        for partition in owned:
            since_s = owned.logs.since_s(partition)
            # The first is quick to ask, as it is below.
            if since_s is not None and since_s <= before_s and self.watched_s(since_s) >= self.unreachable_s:
                leader = self.leaders.get(partition)
                silent[leader.name if leader else "their leader"].append(partition)
        for name, partitions in silent.items():
            text = (
                f"{name} has not answered for {self.unreachable_s:g} s, so the lag of {names(partitions)} is "
                "unknown: check that this broker runs, leads these partitions, and is reached by this host"
            )
            yield name, text

    @property
    def now_s(self) -> float:
        """The time of the clock that brokers' answers are measured by."""
        return self._clock()

    def watched_s(self, since_s: float) -> float:
        """Return for how many of the seconds since then this process has looked for answers."""
        return self._watched.watched_s(since_s)

    @property
    def silence_s(self) -> float:
        """Seconds since any broker answered last, a few too many where nothing but heartbeats goes on.

        Only those in which this process looked.
        """
        return self.watched_s(self._answered_s)

    @property
    def stranded_s(self) -> float:
        """Seconds since the client has known no broker; only another client, of a new process, finds one."""
        since_s = self._stranded_since_s  # the poll thread may clear it meanwhile
        return 0.0 if since_s is None else self.watched_s(since_s)

    @property
    def is_unreachable(self) -> bool:
        """Whether no broker has answered for too long."""
        # The first is quick to ask: most of the time an answer has just come.
        return self._clock() - self._answered_s >= self.unreachable_s and self.silence_s >= self.unreachable_s

    @property
    def is_cut_off(self) -> bool:
        """Whether it is unknown where the logs end now."""
        return self._down_s is not None or self.is_unreachable

    @property
    def is_blind(self) -> bool:
        """Whether it is not known what brokers have now: they are silent, or this process has not looked."""
        return self._down_s is not None or self._clock() - self._answered_s >= self.unreachable_s

    @property
    def lost_s(self) -> float | None:
        """Seconds since all partitions were lost; None where that was not so, or some came back."""
        since_s = self._lost_since_s
        return None if since_s is None else self._clock() - since_s

    def _answered(self, at_s: float) -> None:
        self._answered_s = max(at_s, self._answered_s)
