"""One waiter for all tests: it looks until something is true, and otherwise says what it saw instead."""

from __future__ import annotations

import ast
import inspect
import linecache
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Much longer than anything takes: a machine that many share may stand still for seconds.
LIMIT_S = 30.0
# Between two looks, or nine times as long as a look takes: one that asks a broker opens a client each time,
# which is work for both, and leaves others the time.
PAUSE_S = 0.005
PAUSE_IN_CHECKS = 9
PAUSE_S_MAX = 0.1
SHOWN_MAX = 300


def wait_until(
    true: Callable[[], Any],
    what: Any = "",
    timeout_s: float = LIMIT_S,
    *,
    meanwhile: Callable[[], object] | None = None,
) -> Any:
    """Look until `true()` is true and return its value.

    After `timeout_s` (seconds) this fails. The failure says `what` was waited for, or the condition's own
    words, and what the condition's parts are then; `what` may be a function that returns the words. Between
    two looks `meanwhile` is called; without one this sleeps.
    """
    __tracebackhide__ = True  # pytest's report ends at the test's own line
    ends_s = time.monotonic() + timeout_s
    while True:
        began_s = time.monotonic()
        if value := true():
            return value
        if time.monotonic() > ends_s:
            reported = what() if callable(what) else what
            raise AssertionError(f"{reported or words_of(true)}: not within {timeout_s:g} s; {seen_by(true)}")
        if meanwhile is None:
            took_s = time.monotonic() - began_s
            time.sleep(min(max(PAUSE_IN_CHECKS * took_s, PAUSE_S), PAUSE_S_MAX))
        else:
            meanwhile()


def must_stay(true: Callable[[], Any], *, for_s: float = 0.3) -> None:
    """Fail as soon as the condition does not hold, within a window (seconds) in which a defect would show."""
    __tracebackhide__ = True
    ends_s = time.monotonic() + for_s
    while time.monotonic() < ends_s:
        if not true():
            raise AssertionError(f"{words_of(true)}: did not stay so; {seen_by(true)}")
        time.sleep(PAUSE_S)


def words_of(true: Callable[[], Any]) -> str:
    """Return a condition as its test has written it."""
    body = _body_of(true)
    return getattr(true, "__name__", repr(true)) if body is None else ast.unparse(body)


def seen_by(true: Callable[[], Any]) -> str:
    """Return what the parts of a condition are now: the sides of its comparisons, or all of it."""
    body, found = _body_of(true), []
    if body is not None:
        closure = inspect.getclosurevars(true)
        names = {**closure.builtins, **closure.globals, **closure.nonlocals}
        for part in _parts_of(body):
            try:
                value = eval(compile(ast.Expression(part), "<seen>", "eval"), names)
            except Exception as error:
                value = error
            found.append(f"{ast.unparse(part)} is {_shown(value)}")
    return ", ".join(found) or f"it returns {_shown(true())}"


def _body_of(true: Callable[[], Any]) -> ast.expr | None:
    """Return the expression of a lambda, found by its place in its file."""
    code = getattr(true, "__code__", None)
    if code is None or code.co_name != "<lambda>":
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    places = {(line, column) for line, _, column, _ in code.co_positions() if line and column}
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and (node.body.lineno, node.body.col_offset) in places:
            return node.body
    return None


def _parts_of(body: ast.expr) -> Iterator[ast.expr]:
    """Yield what a reader needs to see: no constants, nothing that binds names of its own."""
    if isinstance(body, ast.BoolOp):
        for value in body.values:
            yield from _parts_of(value)
    elif isinstance(body, ast.UnaryOp):
        yield from _parts_of(body.operand)
    elif isinstance(body, ast.Compare):
        for side in (body.left, *body.comparators):
            yield from _parts_of(side)
    elif isinstance(body, ast.Call) and isinstance(body.func, ast.Name) and body.func.id == "len":
        yield from _parts_of(body.args[0])
    elif not isinstance(body, ast.Constant):
        yield body


def _shown(value: object) -> str:
    text = repr(value)
    half = SHOWN_MAX // 2
    return text if len(text) <= SHOWN_MAX else f"{text[:half]} … {text[-half:]}"
