"""What a member answers: at once, whatever else it was asked before; and which of several has a key."""

from __future__ import annotations

import socket
import sys
import threading
from typing import Any

import pytest

from ehkafka.errors import ActionRefusedError
from ehkafka.members import serving
from ehkafka.members.serving import Serving
from ehkafka.members.steering import act
from ehkafka.members.wire import packed, read_frame, unpacked
from ehkafka.run.steer.action import Action
from tests.kit.waiting import wait_until

DONE = {"text": "done.", "changed": True, "name": "t/0@0", "records": 1, "is_preview": False}


# Its threads end by an exit, each.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_member_answers_while_an_action_waits_for_its_poll_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever watches it takes it for hung, and ends it."""
    # The end of the socket ends the process, which here is the test's.
    monkeypatch.setattr(serving.os, "_exit", sys.exit)
    ours, theirs = socket.socketpair()
    ours.settimeout(10.0)
    member = Serving(theirs, None)  # type: ignore[arg-type]
    release = threading.Event()
    actions: dict[str, Any] = {"status": lambda: "fine", "act": lambda: release.wait(20.0)}
    member.actions = actions
    member.start()

    def ask(*asked: str) -> None:
        for number, do in enumerate(asked):
            ours.sendall(packed({"id": number, "do": do, "with": {}}))

    def answer() -> Any:
        frame = read_frame(ours)
        assert frame is not None
        return unpacked(frame)

    with ours, theirs:
        ask("act", "act", "status")
        assert answer() == {"id": 2, "answer": "fine"}
        release.set()
        assert [answer()["id"] for _ in range(2)] == [0, 1]
        actions |= {"status": sys.exit, "act": sys.exit}
        ask("act", "status")
        ours.shutdown(socket.SHUT_WR)
        wait_until(
            lambda: not [one for one in threading.enumerate() if one.name.startswith("ehkafka-member")]
        )


class Members:
    """Two members, each of which says what a test has it say to a question about a key."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[int, bool]] = []

    def running(self) -> list[int]:
        """All of them."""
        return list(range(len(self.answers)))

    def ask(self, number: int, _action: str, _timeout_s: float, /, **arguments: Any) -> Any:
        """Answer, or do not."""
        self.asked.append((number, arguments["action"]["preview"]))
        if isinstance(self.answers[number], Exception):
            raise self.answers[number]
        return self.answers[number]

    def member_with(self, _partition: Any) -> int | None:
        """Nobody knows."""
        return None


BUSY = {"refused": ["busy", "The poll loop has not come round.", []]}


@pytest.mark.parametrize("silent", [BUSY, TimeoutError("no answer")])
@pytest.mark.parametrize("place", [0, 1])
def test_a_key_is_acted_on_only_when_all_have_said_whether_they_have_it(silent: Any, place: int) -> None:
    """Who does not answer may have the same key."""
    answers = [{"result": DONE}, {"result": DONE}]
    answers[place] = silent
    members = Members(*answers)
    with pytest.raises(ActionRefusedError, match="Nothing was done") as refused:
        act(members, Action(do="skip", target="key", name="a"))
    assert refused.value.reason == "busy"
    assert all(preview for _, preview in members.asked)


def test_the_member_that_has_the_key_does_it() -> None:
    """The other one does not know it."""
    members = Members({"refused": ["unknown", "No such key.", []]}, {"result": DONE})
    assert act(members, Action(do="skip", target="key", name="a")).changed
    assert members.asked == [(0, True), (1, True), (1, False)]
