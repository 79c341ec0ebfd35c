"""What goes between supervisor and member: frames, answers, and a member that answers nothing."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.members.channel import GONE, STUCK, UNSENT_BYTES_MAX, Channel
from ehkafka.members.wire import FRAME_BYTES_MAX, HEAD, Frames, framed, packed, read_frame, unpacked
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    """Return a channel and the member's end of it."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours, wake=lambda: None)
    yield channel, theirs
    channel.close()
    theirs.close()


def test_a_message_arrives_whole_however_it_is_cut() -> None:
    """Byte by byte, two at once, with what follows."""
    whole = packed({"id": 1, "answer": {"a": [1, None, "ä"]}}) + packed({"notice": "ended"})
    for size in (1, 3, 7, len(whole)):
        frames, found = Frames(), []
        for at in range(0, len(whole), size):
            found += frames.feed(whole[at : at + size])
        assert [unpacked(one) for one in found] == [
            {"id": 1, "answer": {"a": [1, None, "ä"]}},
            {"notice": "ended"},
        ]


def test_text_that_is_no_utf_8_goes_through_escaped() -> None:
    """A key may be any text, and an error may repeat it."""
    found = unpacked(packed({"answer": {"key \ud800": ["\udfff", ("ok",), {1: None}]}})[HEAD.size :])
    assert found == {"answer": {"key \\ud800": ["\\udfff", ["ok"], {"1": None}]}}


def test_numbers_of_more_than_64_bits_go_through_as_their_digits() -> None:
    """A user's error or setting may hold one; those that JSON's writer takes stay numbers."""
    most, least = (1 << 64) - 1, -(1 << 63)
    found = unpacked(packed({"answer": [most, most + 1, {"a": (least, least - 1)}, True]})[HEAD.size :])
    assert found == {"answer": [most, str(most + 1), {"a": [least, str(least - 1)]}, True]}


def test_what_is_no_frame_is_refused() -> None:
    """Before memory is taken for it."""
    with pytest.raises(ValueError, match="a frame of"):
        Frames().feed(HEAD.pack(FRAME_BYTES_MAX + 1))


def test_a_socket_that_ends_in_the_middle_of_a_frame_has_none() -> None:
    """Whoever reads hears that the other side is gone."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(framed(b"abc")[:5])
        theirs.close()
        assert read_frame(ours) is None


def test_each_question_gets_its_answer(ends: tuple[Channel, socket.socket]) -> None:
    """In whatever order they come, among notices."""
    channel, theirs = ends
    first, second = channel.ask("status"), channel.ask("stop", how=["SIGTERM"])
    channel.pump()
    asked = [unpacked(read_frame(theirs) or b"") for _ in range(2)]
    assert [(one["do"], one["with"]) for one in asked] == [("status", {}), ("stop", {"how": ["SIGTERM"]})]
    theirs.sendall(packed({"notice": "ended", "text": "x"}) + packed({"id": asked[1]["id"], "answer": True}))
    assert channel.pump() == [{"notice": "ended", "text": "x"}]
    assert (second.is_there, second.value, first.is_there) == (True, True, False)
    theirs.sendall(packed({"id": asked[0]["id"], "error": "no"}))
    channel.pump()
    assert (first.wait(0), first.error) == (True, "no")


def test_a_member_that_reads_nothing_delays_nobody(ends: tuple[Channel, socket.socket]) -> None:
    """Neither who asks nor who writes waits; beyond a bound its questions are refused at once."""
    channel, _ = ends
    big = "x" * 100_000
    answers = []
    while not answers or not answers[-1].is_there:
        answers.append(channel.ask("status", text=big))
        channel.pump()
    assert answers[-1].error == STUCK
    assert len(answers) * 100_000 < 4 * UNSENT_BYTES_MAX
    assert not answers[0].wait(0.0)


def test_whoever_waits_hears_that_the_member_is_gone(ends: tuple[Channel, socket.socket]) -> None:
    """So does whoever asks later."""
    channel, theirs = ends
    waiting = channel.ask("status")
    theirs.close()
    wait_until(lambda: channel.pump() == [] and channel.ended)
    channel.close()
    assert (waiting.is_there, waiting.error) == (True, GONE)
    assert channel.ask("status").error == GONE


def test_an_answer_that_nobody_waits_for_is_dropped(ends: tuple[Channel, socket.socket]) -> None:
    """Its asker had no patience."""
    channel, theirs = ends
    theirs.sendall(packed({"id": 77, "answer": 1}))
    found: list[Any] = channel.pump()
    assert found == []
