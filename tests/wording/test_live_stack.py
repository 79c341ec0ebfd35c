"""Stacks of code that runs: the user's line comes first, and what is ours is left out."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import ehkafka
from ehkafka.wording.live_stack import dumped_stack, stacks_text, thread_stack

OURS = Path(ehkafka.__file__).parent / "workers" / "made_up.py"
STANDARD = Path(threading.__file__)


def called_by(file: Path, call: object) -> object:
    """Return what a function of this file returns that calls another."""
    names: dict[str, object] = {}
    exec(compile("def made_up(call):\n    return call()", file, "exec"), names)
    return names["made_up"](call)  # type: ignore[operator]


def handle() -> str:
    """Be the user's handler, which calls us, which calls the user's code."""
    return str(called_by(OURS, where))


def where() -> str:
    """Return where this runs."""
    return thread_stack(sys._getframe())


def nested(depth: int) -> str:
    """Be a recursion."""
    return where() if depth == 0 else nested(depth - 1)


def test_the_users_first_line_comes_first_and_ours_are_left_out() -> None:
    """A thread begins in Python's own code and ours, and so does each stack of it."""
    found: list[str] = []

    def work() -> None:
        called_by(OURS, lambda: found.append(handle()))

    thread = threading.Thread(target=lambda: called_by(STANDARD, work))
    thread.start()
    thread.join()
    lines = [line for line in found[0].splitlines() if line.startswith("  File")]
    assert all(__file__ in line or str(STANDARD) in line for line in lines)
    assert __file__ in lines[0]
    assert [line.rpartition(" in ")[2] for line in lines][-3:] == ["handle", "called_by", "where"]


def test_a_recursion_is_cut_in_its_middle() -> None:
    """How it began, and where it is."""
    lines = nested(300).splitlines()
    assert "more frames)" in "".join(lines)
    assert lines[-2].endswith("in where")
    assert len(lines) <= 2 * 40 + 1


def test_where_no_line_is_the_users_all_are_shown() -> None:
    """Such as a loop that waits."""
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
    assert thread_stack(frame)


def test_workers_at_the_same_line_share_one_stack() -> None:
    """With all of their names."""
    assert stacks_text({"a": "x\n", "b": "y\n", "c": "x\n"}) == "a, c\nx\n\nb\ny\n"


def test_a_dump_keeps_the_threads_that_run_the_users_code() -> None:
    """Of a child that hangs; one without any such line is kept whole."""
    head, current = "Thread 0x1 (most recent call first):", "Current thread 0x2 (most recent call first):"
    ours = f'  File "{OURS}", line 94 in _die_with\n  File "{STANDARD}", line 982 in run'
    users = f'  File "{STANDARD}", line 7 in wait\n  File "/shop/orders.py", line 5 in handle'
    kept = f"{current}\n{users}"
    assert dumped_stack(f"{head}\n{ours}\n\n{kept}\n{ours.splitlines()[0]}") == kept
    assert dumped_stack(ours) == ours
