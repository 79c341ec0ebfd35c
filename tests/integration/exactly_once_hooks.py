"""What tests change in a member that sends exactly once: a transaction stands still, or a rule is left out.

Installed by `tests.kit.member` alone. Each hook has a folder that it shares with its test: there is
`reached` once a transaction has come to where it waits, it goes on as soon as `go` is there, and then `over`.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.transactions import coverage
from ehkafka.transactions.committing import SendOffsets, TransactionalCommits
from ehkafka.transactions.loop import TransactionLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHECK_S = 0.01
# Longer than a test waits for anything.
WAITS_S = 120.0


class Gate:
    """Where the first transaction stands still that goes beyond where its partitions begin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waited: SendOffsets | None = None
        carry_out = TransactionLoop._carry_out

        def carried_out(loop: TransactionLoop, request: SendOffsets) -> None:
            carry_out(loop, request)
            if request is self._waited:
                (folder / "over").touch()

        TransactionLoop._carry_out = carried_out  # type: ignore[method-assign]

    def wait(self, request: SendOffsets) -> bool:
        """Say that it is reached, and wait; a later request goes through, and gets False."""
        if self._waited or not any(position.next_offset for position in request.positions.values()):
            return False
        self._waited = request
        (self._folder / "reached").touch()
        ends_s = time.monotonic() + WAITS_S
        while not (self._folder / "go").exists() and time.monotonic() < ends_s:
            time.sleep(CHECK_S)
        return True


def install(name: str, folder: str) -> None:
    """Change this process as the hook of this name does."""
    HOOKS[name](Path(folder))


def before_offsets(folder: Path) -> None:
    """Wait when all is produced, before the offsets go."""
    gate = Gate(folder)

    def metadata(request: SendOffsets) -> bytes:
        gate.wait(request)
        fixed: bytes = vars(request)["metadata"]
        return fixed

    _on_reading("metadata", metadata)


def before_commit(folder: Path) -> None:
    """Wait when the broker has the offsets, too, before the commit."""
    gate = Gate(folder)

    def is_committing(request: SendOffsets) -> bool:
        return vars(request).get("is_committing", False)

    def write(request: SendOffsets, value: bool) -> None:
        vars(request)["is_committing"] = value
        if value:
            gate.wait(request)

    SendOffsets.is_committing = property(is_committing, write)  # type: ignore[assignment]


def rule_c_off(folder: Path) -> None:
    """Let no rebalance wait for a transaction, and send offsets with the membership of that moment.

    Whatever that is: who is no member any more sends them as well.
    """
    gate = Gate(folder)
    consumers: list[Any] = []
    latest: list[bytes] = []
    answers = TransactionalCommits.answers

    def metadata(request: SendOffsets) -> bytes:
        if gate.wait(request):
            latest.clear()
        while not latest:
            time.sleep(CHECK_S)
        return latest[-1]

    def request_of(_commits: Any, consumer: Any, positions: Mapping[Any, Any]) -> SendOffsets:
        consumers[:] = [consumer]
        sample()
        return SendOffsets(positions, b"", positions)

    def sample() -> None:
        # On the poll thread, between two calls of the client: it lets no other thread in for long.
        latest[:] = [consumer.consumer_group_metadata() for consumer in consumers]

    def sampling(commits: TransactionalCommits) -> Any:
        sample()
        return answers(commits)

    _on_reading("metadata", metadata)
    TransactionalCommits._request = request_of  # type: ignore[method-assign]
    TransactionalCommits.answers = sampling  # type: ignore[method-assign]
    _wait_for_none()


def rule_b_off(_folder: Path) -> None:
    """Send whatever is finished with each commit, whether the commit says so or not."""

    class All(coverage.Cover):
        def has(self, _offset: int) -> bool:
            return True

    coverage.cover_of = lambda position: All(position.next_offset)


def _wait_for_none() -> None:
    """Let the first one that waits for a transaction go on without, and no loss take one back.

    Nor does an epoch wait for the last transaction of its partition.
    """
    commits: Any = TransactionalCommits
    waits = commits.ready

    def ready(its: Any, consumer: Any, positions: Mapping[Any, Any]) -> Callable[[], Any]:
        commits.ready = waits
        request = its._request(consumer, positions)
        its._loop.submit(request)
        # Its outputs must be with it, or they end with their epoch.
        while its._loop._handing is None and not request.done.is_set():
            time.sleep(CHECK_S)
        return lambda _timeout_s: (None, ())

    commits.ready = ready
    commits.end_unwanted = lambda _commits, _timeout_s: None
    TransactionLoop.undecided = lambda _loop: set()  # type: ignore[method-assign]


def _on_reading(name: str, read: Callable[[SendOffsets], object]) -> None:
    def write(request: SendOffsets, value: object) -> None:
        vars(request)[name] = value

    setattr(SendOffsets, name, property(read, write))


HOOKS: dict[str, Callable[[Path], None]] = {
    "before-offsets": before_offsets,
    "before-commit": before_commit,
    "rule-c-off": rule_c_off,
    "rule-b-off": rule_b_off,
}
