"""One member as its supervisor keeps it: the process of the moment, what it said last, and its next start.

Holds state and judges it; the supervisor acts. Written on its main thread, an answer by
the thread that asked as well; any thread reads, each field once, since a process may end between two looks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ehkafka.http.answers import OK
from ehkafka.members.restarts import Backoff
from ehkafka.telemetry.snapshot import Health, MemberSnapshot
from ehkafka.telemetry.snapshot_json import snapshot_from

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ehkafka.http.answers import Answer
    from ehkafka.members.process import MemberProcess
    from ehkafka.records import TopicPartition
    from ehkafka.telemetry.snapshot import Snapshot

# A member that has not answered for so long is not live; an answer takes milliseconds.
SILENCE_S: Final = 10.0


@dataclass(slots=True)
class Member:
    """A member's number is for ever, its processes come and go."""

    number: int
    process: MemberProcess | None = None
    backoff: Backoff = field(default_factory=Backoff)
    # Monotonic; when to start the next process, where there is none.
    start_at_s: float = 0.0
    starts: int = 0
    # The supervisor has asked this process to end, and kills it at the deadline.
    is_stopping: bool = False
    kill_at_s: float | None = None
    # Of this process: its last state (`http.answers`), empty before there is one, when it answered, the
    # question that is open, when it was first ready.
    document: dict[str, Any] = field(default_factory=dict)
    answered_s: float | None = None
    asked: Future[Answer] | None = None
    ready_at_s: float | None = None
    # Since when it answers that it is not live.
    ill_since_s: float | None = None
    # Of the process before it.
    before: dict[str, Any] = field(default_factory=dict)
    # What it said of its own end.
    farewell: dict[str, Any] | None = None
    last_end: str = ""
    # It has caught up, and is not started again.
    is_done: bool = False

    def begin(self, process: MemberProcess) -> None:
        """Take a new process."""
        self.process = process
        self.starts += 1
        self.is_stopping, self.kill_at_s = False, None
        self.answered_s, self.asked = None, None
        self.ready_at_s, self.ill_since_s, self.farewell = None, None, None

    def end(self) -> None:
        """Let go of its process. What that noted may say why it has ended."""
        if "events" in self.document:
            self.before = self.document
        self.process, self.document = None, {}

    def has(self, partition: TopicPartition) -> bool:
        """Tell whether it had a partition when it answered last."""
        snapshot = self.snapshot
        return snapshot is not None and any(one.partition == partition for one in snapshot.partitions)

    @property
    def state(self) -> str:
        """Where it is in its life."""
        found = self.document
        if self.process is None:
            return "done" if self.is_done else "waiting"
        said = str(found["snapshot"]["state"]) if found else "starting"
        return "stopping" if self.is_stopping else "starting" if said in {"new", "starting"} else said

    @property
    def snapshot(self) -> Snapshot | None:
        """What its app answered last."""
        found = self.document
        return snapshot_from(found["snapshot"]) if found else None

    @property
    def is_ready(self) -> bool:
        """Whether it has joined the group."""
        plain = self.document.get("snapshot")
        if self.process is None or self.is_stopping or plain is None or plain["state"] != "running":
            return False
        return bool(plain["partitions"] or plain["is_standby"])

    def silence_s(self, now_s: float) -> float:
        """Return how long its process has not answered; from its start, before the first answer."""
        process, answered_s = self.process, self.answered_s
        if process is None:
            return 0.0
        return now_s - (process.started_s if answered_s is None else answered_s)

    def not_live(self, now_s: float) -> str:
        """Return why its process is not live; empty while it is. At start and stop it is, if it answers."""
        if self.process is None:
            return "it does not run"
        if (silence_s := self.silence_s(now_s)) >= SILENCE_S:
            return f"it has not answered for {silence_s:.0f} s"
        return " ".join(self.document.get("not_live", ()))

    def is_live(self, now_s: float) -> bool:
        """Whether its app runs, and nothing is wrong that a restart would cure."""
        return self.state in {"running", "stopping"} and not self.not_live(now_s)

    @property
    def live_until_s(self) -> float:
        """Until when its process was live, by its answers; without a process infinite."""
        process, answered_s, ill_since_s = self.process, self.answered_s, self.ill_since_s
        if process is None:
            return math.inf
        heard_s = process.started_s if answered_s is None else answered_s
        return heard_s if ill_since_s is None else min(heard_s, ill_since_s)

    def note(self, unasked: dict[str, Any]) -> None:
        """Take what it says unasked: its last state, and what ended it."""
        if unasked["path"] == "/end":
            self.farewell = unasked["body"]
        else:
            self.document = {**self.document, **unasked["body"]}

    def take(self, answer: Future[Answer], now_s: float) -> bool:
        """Take what it answered, if it did."""
        self.asked = None
        if answer.exception() is not None:
            return False
        status, body = answer.result()
        self.answered_s = now_s
        if status == OK:
            # Lists that were not asked for stay as they were.
            self.document = {**self.document, **body}
        if not self.document.get("not_live"):
            self.ill_since_s = None
        elif self.ill_since_s is None:
            self.ill_since_s = now_s
        return True

    def shown(self, now_s: float) -> MemberSnapshot:
        """Return it as part of a snapshot."""
        process, answered_s = self.process, self.answered_s
        return MemberSnapshot(
            number=self.number,
            pid=None if process is None else process.pid,
            state=self.state,
            restarts=max(0, self.starts - 1),
            is_live=self.is_live(now_s),
            is_ready=self.is_ready,
            silence_s=None if answered_s is None else now_s - answered_s,
            last_end=self.last_end,
            snapshot=self.snapshot,
        )

    def health(self, now_s: float) -> Health:
        """Return what is wrong with it, each reason with its number."""
        if self.is_done:
            return Health()
        if self.process is None:
            again = f"It restarts in {max(0.0, self.start_at_s - now_s):.1f} s."
            loop = f" It has ended {self.backoff.ends_in_a_row} times in a row." * self.backoff.is_loop
            return Health((f"Member {self.number} ended ({self.last_end}). {again}{loop}",))
        of_app = self.document.get("health", {"reasons": ["The app is starting."], "notes": []})
        found = list(of_app["reasons"])
        if self.silence_s(now_s) >= SILENCE_S:
            found = [f"The process has not answered for {self.silence_s(now_s):.0f} s.", *found]
        where = f"Member {self.number}: "
        return Health(tuple(where + one for one in found), tuple(where + one for one in of_app["notes"]))
