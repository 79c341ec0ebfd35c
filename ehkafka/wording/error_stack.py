"""Where an error was raised in the user's own code, and its stack as text.

Values, made on the thread that caught the error. A stack has places and source lines, never a value: no local
variable, and no error's text, which may repeat a record. Bounded, however deep a recursion went and however
long a chain of causes is. Nothing here raises.
"""

from __future__ import annotations

import sysconfig
import traceback
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import CodeType, FrameType, TracebackType

STACK_BYTES_MAX = 8_000
"""A dead letter's header, with a record of up to 1 MB; 60 frames of usual length."""

# The innermost ones of each error: a recursion's outer frames repeat each other.
_FRAMES_MAX = 40
# Errors of one chain of causes, and of one group.
_CHAIN_MAX = 8
_GROUP_MAX = 4

# What was shown of frames before: a look at the source asks the file system each time.
_shown: dict[tuple[str, int, str], tuple[str, ...]] = {}
_SHOWN_MAX = 1_000

_OWN = str(Path(__file__).parents[1]) + "/"
_STANDARD = tuple(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib"))
_INSTALLED = ("/site-packages/", "/dist-packages/")
_CAUSED = "The above exception was the direct cause of the following exception:"
_DURING = "During handling of the above exception, another exception occurred:"


class RemoteTraceback(Exception):  # noqa: N818 - it is shown as the cause of an error and is none itself
    """The traceback of an error in the worker process that raised it, as text.

    `place` and `stack` are what `place_of` and `stack_of` said of it there.
    """

    def __init__(self, text: str, place: str = "", stack: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.place = place
        self.stack = stack

    def __str__(self) -> str:
        return f"\n{self.text}"


def place_of(error: BaseException) -> str:
    """Return the innermost line of the user's code, as `file:line in function`; empty where none is known.

    The user's code is what we call, and whatever is neither Python's, an installed package's nor ours. A
    method that `dataclass` or attrs generated has no source line: its caller is named instead. Of a group it
    is the first member's that has one; an error that no such line raised has its cause's.
    """
    for one in with_reasons(error):
        if isinstance(one, RemoteTraceback):
            return one.place
        users = _users(one.__traceback__)
        if users is not None:
            code, line = users
            return f"{code.co_filename}:{line} in {code.co_name}"
    return ""


def kind_of(error: BaseException) -> str:
    """Return the full name of an error's type."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def stack_of(error: BaseException, bytes_max: int = STACK_BYTES_MAX) -> str:
    """Return the place, then the stacks of an error and its causes, innermost line last; empty without any.

    At most `bytes_max` bytes of UTF-8: what is too much goes out of the middle.
    """
    if error.__traceback__ is None and isinstance(error.__cause__, RemoteTraceback):
        return _cut(error.__cause__.stack, bytes_max)
    lines = list(_chain(error, depth=0))
    if not any(line.startswith("  ") for line in lines):
        return ""  # it was never raised
    place = place_of(error)
    return _cut("\n".join([*([f"at {place}"] if place else []), *lines]), bytes_max)


def with_reasons(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, members of a group first, then what led to it."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen and len(seen) < _CHAIN_MAX:
        seen.add(id(one))
        if isinstance(one, BaseExceptionGroup):
            yield from _members(one, _CHAIN_MAX)
        yield one
        one = one.__cause__ or one.__context__


def _members(group: BaseExceptionGroup[Any], depth: int) -> Iterator[BaseException]:
    for one in group.exceptions[:_GROUP_MAX]:
        if isinstance(one, BaseExceptionGroup) and depth:
            yield from _members(one, depth - 1)
        yield one


def _users(trace: TracebackType | None) -> tuple[CodeType, int] | None:
    """Return the innermost line of the user's code in one traceback."""
    found: tuple[CodeType, int] | None = None
    # Packages whose code we called: the user's own may be installed like any other.
    called: set[str] = set()
    was_ours = False
    while trace is not None:
        code = trace.tb_frame.f_code
        name = code.co_filename
        if name.startswith(_OWN):
            was_ours = True
        elif not (is_standard(name) or _is_generated(code)):
            package = _package(name)
            if was_ours and package is not None:
                called.add(package)
            if package is None or package in called:
                found = code, trace.tb_lineno
            was_ours = False
        trace = trace.tb_next
    return found


def is_ours(code: CodeType) -> bool:
    """Tell whether a function is ehkafka's, or generated."""
    return is_own_file(code.co_filename) or _is_generated(code)


def is_own_file(name: str) -> bool:
    """Tell whether a file is ehkafka's."""
    return name.startswith(_OWN)


def is_standard(name: str) -> bool:
    """Tell whether a file is Python's own."""
    if name.startswith("<frozen "):
        return True
    return name.startswith(_STANDARD) and not any(mark in name for mark in _INSTALLED)


def _is_generated(code: CodeType) -> bool:
    """Tell whether `dataclass` or attrs wrote a function: its file and its lines exist nowhere."""
    return code.co_qualname.startswith("__create_fn__.") or code.co_filename.startswith("<attrs generated ")


def _package(name: str) -> str | None:
    """Return the installed package that a file belongs to, None where it belongs to none."""
    for mark in _INSTALLED:
        before, found, rest = name.rpartition(mark)
        if found:
            return before + mark + rest.partition("/")[0]
    return None


def _chain(error: BaseException, depth: int) -> Iterator[str]:
    """Yield the lines of an error behind those of its causes."""
    chain: list[tuple[BaseException, str]] = []
    one: BaseException | None = error
    how = ""
    while one is not None and len(chain) < _CHAIN_MAX and all(one is not other for other, _ in chain):
        chain.append((one, how))
        if one.__cause__ is not None:
            one, how = one.__cause__, _CAUSED
        else:
            one, how = None if one.__suppress_context__ else one.__context__, _DURING
    for one, leads in reversed(chain):
        yield from _one(one, depth)
        if leads:
            yield from ("", leads, "")


def _one(error: BaseException, depth: int) -> Iterator[str]:
    if isinstance(error, RemoteTraceback):
        yield from error.stack.splitlines()
        return
    frames, left_out = _frames(error.__traceback__)
    if frames:
        yield "Traceback (most recent call last):"
    if left_out:
        yield f"  ({left_out} more frames)"
    yield from frame_lines(frames)
    yield kind_of(error)
    if isinstance(error, BaseExceptionGroup) and depth < _GROUP_MAX:
        for number, member in enumerate(error.exceptions[:_GROUP_MAX], 1):
            yield f"  member {number} of {len(error.exceptions)}:"
            yield from (f"    {line}" for line in _chain(member, depth + 1))


def _frames(trace: TracebackType | None) -> tuple[list[tuple[FrameType, int]], int]:
    """Return the innermost frames that are not ours, and how many others there are."""
    kept: deque[tuple[FrameType, int]] = deque(maxlen=_FRAMES_MAX)
    number = 0
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code):
            kept.append((trace.tb_frame, trace.tb_lineno))
            number += 1
        trace = trace.tb_next
    return list(kept), number - len(kept)


def frame_lines(frames: Sequence[tuple[FrameType, int]]) -> Iterator[str]:
    """Yield where each frame is, and the line there."""
    for frame, line in frames:
        place = frame.f_code.co_filename, line, frame.f_code.co_name
        shown = _shown.get(place)
        if shown is None:
            if len(_shown) >= _SHOWN_MAX:
                _shown.clear()
            shown = _shown[place] = tuple(_lines_of(frame, line))
        yield from shown


def _lines_of(frame: FrameType, line: int) -> Iterator[str]:
    try:
        (found,) = traceback.StackSummary.extract([(frame, line)], lookup_lines=True)
    except Exception:  # a loader of source, or a file system, that fails
        found = traceback.FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name, line="")
    yield f'  File "{found.filename}", line {found.lineno}, in {found.name}'
    if found.line:
        yield f"    {found.line}"


def _cut(text: str, bytes_max: int) -> str:
    """Return a text that UTF-8 can say, in so many bytes at most."""
    body = text.encode("utf-8", "backslashreplace")
    if len(body) > bytes_max:
        mark = b"\n  (cut)\n"
        head = min(bytes_max // 4, 1_000)
        tail = bytes_max - head - len(mark)
        body = body[:head] + mark + body[-tail:] if tail > 0 else body[:bytes_max]
    return body.decode("utf-8", "ignore")
