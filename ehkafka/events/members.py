"""Events of a supervisor's members: their starts and ends, and rolling restarts."""

from __future__ import annotations

from logging import ERROR, WARNING

from ehkafka.events.event import Event
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import clause, ending, plain


class MembersStarting(Event):
    """A supervisor starts its members. The supervisor itself consumes nothing."""

    members: int
    group: str

    def sentence(self) -> str:
        return f"Starting {counted(self.members, 'member')} of group {plain(self.group)}."


class MembersAdvice(Event, level=WARNING, subject="advice"):
    """The supervisor's options work, but may have an unexpected effect. Reported at the start."""

    advice: str

    def sentence(self) -> str:
        return ending(self.advice)


class MemberReady(Event):
    """A member has joined the group."""

    number: int
    pid: int
    partitions: int
    after_s: float

    def sentence(self) -> str:
        return (
            f"Member {self.number} (process {self.pid}) is ready after {seconds(self.after_s)} with "
            f"{counted(self.partitions, 'partition')}."
        )


class MemberEnded(Event, level=WARNING, subject="number"):
    """A member's process has ended without a stop. The supervisor restarts it after `wait_s` seconds."""

    number: int
    how: str
    wait_s: float

    def sentence(self) -> str:
        return f"Member {self.number} ended ({clause(self.how)}). It restarts in {seconds(self.wait_s)}."


class MemberDone(Event):
    """A member has caught up, in a run that ends when all members have. The member is not restarted."""

    number: int

    def sentence(self) -> str:
        return f"Member {self.number} has caught up."


class MemberLoops(Event, level=ERROR, subject="number"):
    """A member ends again and again."""

    number: int
    ends: int
    how: str

    def sentence(self) -> str:
        return (
            f"Member {self.number} has ended {self.ends} times in a row soon after its start, the last "
            f"time: {clause(self.how)}. For the cause, read the log lines above. The supervisor restarts "
            "the member after longer and longer pauses."
        )


class MemberHung(Event, level=ERROR, subject="number"):
    """A member was not live for `hung_s`, so the supervisor kills and restarts it."""

    number: int
    pid: int
    for_s: float
    reason: str

    def sentence(self) -> str:
        return (
            f"Member {self.number} (process {self.pid}) has not been live for {seconds(self.for_s)} "
            f"({clause(self.reason)}). The supervisor kills and restarts the member."
        )


class MembersReplacing(Event):
    """A rolling restart begins: one member after another."""

    members: int
    reason: str

    def sentence(self) -> str:
        return (
            f"Replacing {counted(self.members, 'member')} ({clause(self.reason)}), one after the other: "
            "each new member must be ready before the next is replaced."
        )


class MembersReplaced(Event):
    """A rolling restart has ended."""

    members: int
    took_s: float

    def sentence(self) -> str:
        return f"Replaced {counted(self.members, 'member')} in {seconds(self.took_s)}."
