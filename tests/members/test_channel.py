"""What goes between supervisor and member: lines, answers, and a member that answers nothing."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.http.plain import loaded
from ehkafka.members.channel import GONE, LINE_BYTES_MAX, STUCK, UNSENT_BYTES_MAX, Channel, Lines, line
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """Return a channel and the member's end of it."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_a_message_arrives_whole_however_it_is_cut() -> None:
    """Byte by byte, two at once, with what follows."""
    messages = [{"id": 1, "body": {"a": [1, None, "ä\n", "key \ud800"]}}, {"path": "/end"}]
    whole = b"".join(map(line, messages))
    for size in (1, 3, 7, len(whole)):
        lines, found = Lines(), []
        for at in range(0, len(whole), size):
            found += lines.feed(whole[at : at + size])
        assert found == messages


@pytest.mark.parametrize("given", [b"[]\n", b"nonsense\n", b"\xff\n", b"[" * 100_000 + b"\n", b"7\n"])
def test_what_is_no_message_is_refused(given: bytes) -> None:
    """Whatever else stands in front of it."""
    with pytest.raises(ValueError, match=r"line|codec"):
        Lines().feed(line({"id": 1}) + given)


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it takes all memory."""
    assert LINE_BYTES_MAX == 256 << 20
    monkeypatch.setattr("ehkafka.members.channel.LINE_BYTES_MAX", 100)
    lines = Lines()
    assert lines.feed(b"x" * 100) == []
    with pytest.raises(ValueError, match="a line of 101 bytes"):
        lines.feed(b"x")


def test_each_question_gets_its_answer(ends: tuple[Channel, socket.socket]) -> None:
    """In whatever order they come, among what a member says unasked."""
    channel, theirs = ends
    first, second = channel.ask("/state", {}), channel.ask("/stop", {"how": ["SIGTERM"]})
    channel.pump()
    asked = list(map(loaded, theirs.recv(10_000).splitlines()))
    assert [(one["path"], one["body"]) for one in asked] == [("/state", {}), ("/stop", {"how": ["SIGTERM"]})]
    end: dict[str, Any] = {"path": "/end", "body": {}}
    theirs.sendall(line(end) + line({"id": asked[1]["id"], "status": 200, "body": {}}))
    assert channel.pump() == [end]
    assert (second.result(0), first.done()) == ((200, {}), False)
    theirs.sendall(line({"id": asked[0]["id"], "status": 503, "body": {"text": "no"}}))
    channel.pump()
    assert first.result(0) == (503, {"text": "no"})


def test_a_member_that_reads_nothing_delays_no_other(ends: tuple[Channel, socket.socket]) -> None:
    """Neither who asks nor who writes waits; beyond a bound its questions are refused at once."""
    channel, _ = ends
    big = "x" * 100_000
    answers = []
    while not answers or not answers[-1].done():
        answers.append(channel.ask("/state", {"text": big}))
        channel.pump()
    assert str(answers[-1].exception()) == STUCK
    assert len(answers) * 100_000 < 4 * UNSENT_BYTES_MAX
    assert not answers[0].done()


def test_a_caller_that_waits_hears_that_the_member_is_gone(ends: tuple[Channel, socket.socket]) -> None:
    """So does one that asks later."""
    channel, theirs = ends
    waiting = channel.ask("/state", {})
    theirs.close()
    wait_until(lambda: channel.pump() == [] and channel.ended)
    channel.close()
    assert str(waiting.exception(0)) == GONE
    assert str(channel.ask("/state", {}).exception(0)) == GONE


def test_an_answer_without_a_caller_is_dropped(ends: tuple[Channel, socket.socket]) -> None:
    """Its asker had no patience."""
    channel, theirs = ends
    theirs.sendall(line({"id": 77, "status": 200, "body": {}}))
    assert channel.pump() == []
