"""Checks the commits of one partition over all processes: premature, stale, and which one is final.

Pure and single-threaded; called by `PartitionCheck` and `ProcessCheck` once per commit, never per record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kit.checker.verdict import Findings, Measure

if TYPE_CHECKING:
    from tests.kit.checker.epoch_check import EpochCheck


@dataclass(slots=True)
class _Request:
    """A commit between its request and its answer."""

    next_offset: int
    epoch: EpochCheck
    number: int
    premature: bool = False
    # The first assignment of the partition to another process after the request's own epoch.
    successor: EpochCheck | None = None
    # The successor was there before the request was: the broker cannot have stored it in time.
    made_too_late: bool = False


class CommitCheck:
    """The commits of one partition in the order of the history."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._outstanding: list[_Request] = []
        self._requests = 0
        self._latest: EpochCheck | None = None
        self._final_request = 0
        # What the broker has now, as far as the history tells; None before the first acknowledgement.
        self.final: int | None = None
        self.highest = -1
        self.acknowledgements = 0

    def assigned(self, epoch: EpochCheck) -> None:
        """Note a new owner; commits of others that are still unanswered become late."""
        for request in self._outstanding:
            if request.successor is None and request.epoch.run != epoch.run:
                request.successor = epoch
        self._latest = epoch
        if epoch.position.isdecimal():
            self.highest = max(self.highest, int(epoch.position))

    def requested(self, epoch: EpochCheck, next_offset: int) -> None:
        """Judge a commit at the moment its value is fixed."""
        self._outstanding.append(self._request(epoch, next_offset, "requested"))

    def acknowledged(self, epoch: EpochCheck, next_offset: int) -> None:
        """Judge a commit at the moment it is known to be stored."""
        self.acknowledgements += 1
        request = self._take(epoch.run, next_offset) or self._request(epoch, next_offset, "acknowledged")
        if not request.premature:
            self._judge_premature(request, "acknowledged")
        stale = self._is_stale(request)
        if stale or request.number > self._final_request:
            self.final, self._final_request = next_offset, request.number
        self.highest = max(self.highest, next_offset)

    def failed(self, run: str, next_offset: int) -> None:
        """Forget a commit that was refused or never answered."""
        self._take(run, next_offset)

    def ended(self, run: str) -> None:
        """Forget what a process that is gone has left unanswered."""
        self._outstanding = [request for request in self._outstanding if request.epoch.run != run]

    def _request(self, epoch: EpochCheck, next_offset: int, verb: str) -> _Request:
        self._requests += 1
        request = _Request(next_offset, epoch, self._requests)
        request.successor = self._owner_after(epoch)
        request.made_too_late = request.successor is not None
        self._judge_premature(request, verb)
        return request

    def _take(self, run: str, next_offset: int) -> _Request | None:
        for index, request in enumerate(self._outstanding):
            if request.epoch.run == run and request.next_offset == next_offset:
                return self._outstanding.pop(index)
        return None

    def _owner_after(self, epoch: EpochCheck) -> EpochCheck | None:
        # Requests belong to the process's own latest epoch: if the partition's is another's, it came later.
        owner = self._latest
        return owner if owner is not None and owner.run != epoch.run else None

    def _judge_premature(self, request: _Request, verb: str) -> None:
        passed = passed_by(request.epoch, request.next_offset)
        if passed is not None:
            request.premature = True
            where = request.epoch.where()
            text = f"{where}: next_offset {request.next_offset} was {verb}, which passes {passed}"
            self._findings.add(Measure.PREMATURE, text)

    def _is_stale(self, request: _Request) -> bool:
        owner = request.successor
        if owner is None:
            return False
        # The successor began where this commit had left the group: the broker stored it in time and
        # only the answer was read late (a process that was stopped for a while does that).
        position = int(owner.position) if owner.position.isdecimal() else -1
        if not request.made_too_late and request.next_offset <= position:
            return False
        text = (
            f"{request.epoch.where()}: next_offset {request.next_offset} was acknowledged after "
            f"the partition was assigned to pid {owner.pid} (epoch {owner.number})"
        )
        self._findings.add(Measure.STALE, text)
        return True


def passed_by(epoch: EpochCheck, next_offset: int) -> str | None:
    """Name what a commit of `next_offset` would pass at this instant, `None` if nothing."""
    oldest = epoch.oldest_unfinished()
    if oldest is not None and oldest < next_offset:
        return f"offset {oldest}, received and unfinished"
    if epoch.last_received >= 0:
        end = epoch.last_received + 1
    elif epoch.position.isdecimal():
        end = int(epoch.position)
    else:
        return None  # the start is only known in words, such as `earliest`
    return f"offset {end}, the first that was not received" if next_offset > end else None
