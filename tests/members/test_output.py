"""What members print becomes one stream of numbered lines, whatever they print and however they end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ehkafka.members.output import LINE_BYTES_MAX, MemberOutput

if TYPE_CHECKING:
    import pytest

CLOSE_S = 20.0


def printing(*texts: bytes, number: int = 1) -> None:
    """Let a member print these on standard output, and end."""
    output = MemberOutput()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    os.close(err_w)
    output.add(number, (out_r, err_r))
    for text in texts:
        os.write(out_w, text)
    os.close(out_w)
    output.close(CLOSE_S)


def test_each_line_has_its_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Pieces of a line are put together, and the last one needs no end; bytes that are no text are shown."""
    printing(b"a\nb", b"c\n\n", "ä".encode()[:1], "ä".encode()[1:] + b"\xff", number=7)
    assert capsys.readouterr().out == "[7] a\n[7] bc\n[7] \n[7] ä\N{REPLACEMENT CHARACTER}\n"


def test_a_line_without_an_end_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """It takes no memory for ever."""
    text = b"x" * (3 * LINE_BYTES_MAX)
    output = MemberOutput()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    output.add(1, (out_r, err_r))
    for at in range(0, len(text), 4_096):
        os.write(out_w, text[at : at + 4_096])
    os.close(out_w)
    os.close(err_w)
    output.close(CLOSE_S)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 2
    assert "".join(line.removeprefix("[1] ") for line in lines) == text.decode()


def test_it_ends_although_a_process_holds_a_pipe_open(capsys: pytest.CaptureFixture[str]) -> None:
    """A grandchild, for instance, that its member has left behind."""
    output = MemberOutput()
    out_r, out_w = os.pipe()
    err_r, err_w = os.pipe()
    output.add(2, (out_r, err_r))
    os.write(err_w, b"half")
    output.close(0.5)
    for fd in (out_r, out_w, err_r, err_w):
        os.close(fd)
    assert capsys.readouterr().err == ""


def test_a_reader_that_has_gone_holds_no_member_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members print on."""
    read_fd, write_fd = os.pipe()
    os.close(read_fd)
    with os.fdopen(write_fd, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        printing(*[b"line\n"] * 50)
        monkeypatch.undo()
        gone.buffer.raw.close()  # type: ignore[attr-defined]
