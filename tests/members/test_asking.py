"""What a member answers: at once, whatever else it was asked before; and which of several has a key."""

from __future__ import annotations

import socket
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from ehkafka.errors import ActionRefusedError
from ehkafka.http.plain import loaded
from ehkafka.members import asking, serving
from ehkafka.members.asking import Asking
from ehkafka.members.channel import line
from ehkafka.members.member import Member
from ehkafka.members.serving import Serving
from ehkafka.run.steer.action import Action
from tests.kit.waiting import wait_until

DONE = {"text": "done.", "changed": True, "name": "t/0@0", "records": 1, "is_preview": False}


# Its threads end by an exit, each.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_member_answers_while_an_action_waits_for_its_poll_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the supervisor takes it for hung, and ends it."""
    # The end of the socket ends the process, which here is the test's.
    monkeypatch.setattr(serving.os, "_exit", sys.exit)
    ours, theirs = socket.socketpair()
    ours.settimeout(10.0)
    lines = ours.makefile("rb")
    member = Serving(theirs, None)  # type: ignore[arg-type]
    release = threading.Event()
    member.start()

    def ask(*paths: str) -> None:
        for number, path in enumerate(paths):
            ours.sendall(line({"id": number, "path": path, "body": {}}))

    def answer() -> Any:
        found = loaded(lines.readline())
        return found["id"], found["status"], found["body"].get("text", "")

    with ours, theirs, lines, member._lines:
        ask("/state")
        assert answer() == (0, 503, "Nothing was done: the app is starting.")
        member.routes = {
            "/state": lambda _body: (200, {}),
            "/actions": lambda _body: (200, {"text": str(release.wait(20.0))}),
            "/report": lambda _body: 1 / 0,  # type: ignore[dict-item, return-value]
        }
        ask("/actions", "/actions", "/state")
        assert answer() == (2, 200, "")
        ask("/report")
        said = (
            "The action may or may not have been done: ZeroDivisionError: division by zero. "
            "Check its effect before you repeat the action."
        )
        assert answer() == (0, 500, said)
        release.set()
        assert [answer() for _ in range(2)] == [(0, 200, "True"), (1, 200, "True")]
        member.routes = {"/state": sys.exit, "/actions": sys.exit}  # type: ignore[dict-item]
        ask("/actions", "/state")
        ours.shutdown(socket.SHUT_WR)
        wait_until(
            lambda: not [one for one in threading.enumerate() if one.name.startswith("ehkafka-member")]
        )


class Process:
    """A process that answers with a status and a body, as a test has it, or not at all."""

    started_s = 0.0

    def __init__(self, *answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    @property
    def channel(self) -> Process:
        """Itself."""
        return self

    def ask(self, _path: str, body: Any) -> Future[Any]:
        """Answer."""
        self.asked.append(body)
        answer: Future[Any] = Future()
        if self.answer:
            answer.set_result(self.answer)
        return answer


def members(*processes: Process) -> tuple[list[Member], Asking]:
    """Return members of such processes, and what asks them."""
    found = []
    for number, process in enumerate(processes, 1):
        found.append(Member(number))
        found[-1].begin(process)  # type: ignore[arg-type]
    return found, Asking(found, lambda: 1.0)


BUSY = 503, {"reason": "busy", "text": "The poll loop has not come round.", "names": []}
UNKNOWN = 404, {"reason": "unknown", "text": "No such key.", "names": []}
SKIP = Action(do="skip", target="key", name="a")


@pytest.mark.parametrize("silent", [BUSY, ()], ids=["busy", "silent"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_key_is_acted_on_only_when_all_have_said_whether_they_have_it(
    monkeypatch: pytest.MonkeyPatch, silent: Any, place: int
) -> None:
    """Who does not answer may have the same key."""
    monkeypatch.setattr(asking, "ACT_S", 0.1)
    answers: list[tuple[Any, ...]] = [(200, DONE), (200, DONE)]
    answers[place] = silent
    processes = [Process(*answer) for answer in answers]
    _, asks = members(*processes)
    with pytest.raises(ActionRefusedError, match="Nothing was done") as refused:
        asks.act(SKIP)
    assert refused.value.reason == "busy"
    assert all(one["preview"] for process in processes for one in process.asked)


def test_the_member_that_has_the_key_does_it() -> None:
    """The other one does not know it."""
    processes = Process(*UNKNOWN), Process(200, DONE)
    assert members(*processes)[1].act(SKIP).changed
    assert [[one["preview"] for one in process.asked] for process in processes] == [[True], [True, False]]


def whole(**lists: Any) -> tuple[int, dict[str, Any]]:
    """Return a member's whole state."""
    return 200, {"snapshot": {}, "not_live": [], "events": [], "keys": [], **lists}


def of_all(asks: Asking) -> list[Any]:
    """Return what a thread other than the main one hears."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asks.states(values=True)))
    thread.start()
    thread.join(10.0)
    return found[0]  # type: ignore[no-any-return]


def test_the_last_state_of_a_member_stays_while_it_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Marked so; one that starts has no state yet, and is not silent."""
    monkeypatch.setattr(asking, "FRESH_S", 0.6)  # who has been silent for twice as long is not asked
    one, other = Process(*whole(events=["e"])), Process(503, {"text": "starts"})
    asks = members(one, other)[1]
    first, second = of_all(asks)
    assert (first.now["events"], first.is_silent) == (["e"], False)
    assert (second.now, second.is_silent) == ({}, False)
    one.answer = other.answer = ()
    assert [(bool(one.now), one.is_silent) for one in of_all(asks)] == [(True, True), (False, True)]


def test_of_a_process_that_ended_the_last_state_is_kept() -> None:
    """With its successor's; of the one before that nothing is. One without lists counts for none."""
    found, asks = members(Process(*whole(events=[1])))
    of_all(asks)
    for events in ([2], None, [3]):
        found[0].end()
        process = Process(*whole(events=events)) if events else Process(200, {"snapshot": {}})
        found[0].begin(process)  # type: ignore[arg-type]
        of_all(asks)
    [last] = of_all(asks)
    assert (last.before["events"], last.now["events"]) == ([2], [3])
    found[0].end()
    [last] = of_all(asks)
    assert (last.before["events"], last.now, last.is_silent) == ([3], {}, False)
