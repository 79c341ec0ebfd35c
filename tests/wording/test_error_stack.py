"""Places and stacks of errors: the user's own line, bounded, without a value."""

from __future__ import annotations

import contextlib
import json
import linecache
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.errors import describe
from ehkafka.records import Record
from ehkafka.wording.error_stack import STACK_BYTES_MAX, RemoteTraceback, place_of, stack_of
from ehkafka.workers.processes.failure import pack_error, unpack_error
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def caught(function: Callable[[], Any]) -> BaseException:
    """Return what a function raises."""
    try:
        function()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


def here(line: int, name: str) -> str:
    """Return a place in this file."""
    return f"{__file__}:{line} in {name}"


def first_line(function: Any) -> int:
    """Return the line of a function's `def`."""
    return int(function.__code__.co_firstlineno)


def test_what_a_library_or_we_raise_is_named_by_the_line_that_called_it() -> None:
    """Of the standard library, of ours, and of an installed package the user's line is the innermost."""

    def of_python() -> None:
        json.loads("{")

    def of_ours() -> None:
        Record(SimulatedMessage("t", 0, 1, None, b"{")).json()  # type: ignore[arg-type]

    def of_a_package() -> None:
        pytest.fail("x")

    for function in (of_python, of_ours, of_a_package):
        assert place_of(caught(function)) == here(first_line(function) + 1, function.__name__)


def a_function(_record: object) -> None:
    """Be a handler."""


# Each is wrong in another way; what refuses it is often a generated `__init__`.
WRONG: dict[str, Callable[[ehkafka.App], object]] = {
    "no topic": lambda app: app.handler()(a_function),
    "empty topic": lambda app: app.handler("")(a_function),
    "workers": lambda app: app.handler("t", workers=0)(a_function),
    "processes": lambda app: app.handler("t", workers=ehkafka.Processes(0))(a_function),
    "auto": lambda app: app.handler("t", workers=ehkafka.Auto(workers_min=4, workers_max=2))(a_function),
    "retry": lambda app: app.handler("t", retry=3)(a_function),  # type: ignore[arg-type]
    "attempts": lambda app: app.handler("t", retry=ehkafka.Retry(attempts=0))(a_function),
    "on_failure": lambda app: app.handler("t", on_failure="skip")(a_function),  # type: ignore[arg-type]
    "dead letter": lambda app: app.handler("t", on_failure=ehkafka.DeadLetter(""))(a_function),
    "order_by": lambda app: app.handler("t", order_by="key")(a_function),  # type: ignore[arg-type]
    "scope": lambda app: app.handler("t", scope="x")(a_function),  # type: ignore[arg-type]
    "headers": lambda app: app.handler("t", headers="x")(a_function),  # type: ignore[arg-type]
    "deadline_s": lambda app: app.handler("t", deadline_s=-1)(a_function),
    "to": lambda app: app.handler("t", to="")(a_function),
    "no function": lambda app: app.handler("t")(3),  # type: ignore[arg-type]
    "no argument": lambda app: app.handler("t")(lambda: 1),  # type: ignore[arg-type,misc]
    "unknown option": lambda app: app.handler("t", wrkers=3)(a_function),  # type: ignore[call-overload]
    "batch": lambda app: app.batch_handler("t", wait_s_max=-1)(a_function),
    "app": lambda _: ehkafka.App(group="g", start="earliest", stop_s=-1),
    "app's drain": lambda _: ehkafka.App(group="g", start="earliest", drain="x"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_registration_is_placed_at_the_users_line(wrong: Callable[[ehkafka.App], object]) -> None:
    """Never in the `__init__` of an option, which `dataclass` wrote."""
    app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("localhost:9092"), start="earliest")
    assert place_of(caught(lambda: wrong(app))) == here(first_line(wrong), "<lambda>")


def test_a_users_generated_method_is_passed_over_too() -> None:
    """What its field's function raises is placed at the line that makes the value; the stack has no gap."""

    @dataclass
    class Reading:
        last: int = field(default_factory=list[int]().pop)

    def make() -> None:
        Reading()

    error = caught(make)
    assert place_of(error) == here(first_line(make) + 1, "make")
    assert "<string>" not in stack_of(error)


def test_a_users_installed_package_is_the_users_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Services are often installed like any library: what we call is theirs, what they call is not."""
    folder = tmp_path / "site-packages"
    for name, source in {
        "users_service/__init__.py": "import drivers\ndef handle(record):\n    drivers.connect()\n",
        "drivers/__init__.py": "def connect():\n    raise OSError('down')\n",
        "ehkafka_like.py": "def call(handler):\n    handler(None)\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr("ehkafka.wording.error_stack._OWN", str(folder / "ehkafka_like"))
    import ehkafka_like  # noqa: PLC0415 - made above
    import users_service  # noqa: PLC0415

    def run() -> None:
        ehkafka_like.call(users_service.handle)

    monkeypatch.setattr("ehkafka.wording.error_stack._STANDARD", (__file__, "/nowhere"))
    assert place_of(caught(run)) == f"{folder}/users_service/__init__.py:3 in handle"
    for name in ("users_service", "drivers", "ehkafka_like"):
        sys.modules.pop(name, None)


def test_a_chain_of_causes_shows_each_and_the_last_ones_line() -> None:
    """`raise … from` and errors within errors, without their texts; `from None` hides."""

    def fails() -> None:
        try:
            {}["hunter2"]
        except KeyError as error:
            raise LookupError("hunter2") from error

    def hides() -> None:
        try:
            {}["x"]
        except KeyError:
            raise OSError from None

    error = caught(fails)
    assert place_of(error) == here(first_line(fails) + 4, "fails")
    stack = stack_of(error)
    assert stack.index("\nKeyError\n") < stack.index("direct cause") < stack.index("LookupError")
    # The key stands in the source lines alone.
    assert stack.count("hunter2") == 2
    assert "KeyError" not in stack_of(caught(hides)).replace("except KeyError", "")


def test_members_of_a_group_are_shown_and_the_first_names_the_line() -> None:
    """As of a task group, nested ones as well."""

    def inner() -> None:
        raise ValueError(1)

    def fails() -> None:
        raise ExceptionGroup("g", [ExceptionGroup("h", [caught(inner)]), KeyError()])  # type: ignore[list-item]

    error = caught(fails)
    assert place_of(error) == here(first_line(inner) + 1, "inner")
    assert "member 1 of 2" in stack_of(error)
    assert "raise ValueError(1)" in stack_of(error)


def test_neither_a_deep_recursion_nor_a_long_chain_makes_it_long() -> None:
    """The innermost frames stay; so does the place."""

    def deep(number: int) -> None:
        if number:
            deep(number - 1)
        raise ValueError(number)

    def chained() -> None:
        error: Exception = OSError()
        for number in range(5_000):
            error, error.__cause__ = ValueError(number), error
        raise error

    for function in (lambda: deep(900), chained):
        error = caught(function)
        stack = stack_of(error)
        assert 0 < len(stack.encode()) <= STACK_BYTES_MAX
        assert stack.startswith(f"at {place_of(error)}\n")
        assert stack.endswith("ValueError")
    assert "more frames" in stack_of(caught(lambda: deep(900)))
    assert len(stack_of(caught(lambda: deep(900)), 300).encode()) <= 300


def test_errors_that_cannot_be_shown_or_point_at_themselves_do_no_harm() -> None:
    """A `__str__` that raises, a circle of causes, a file that is gone, a name that is no UTF-8."""

    class Mute(Exception):  # noqa: N818 - its name is not what is tested
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def mute() -> None:
        raise Mute

    def circle() -> None:
        one, other = ValueError(), KeyError()
        one.__cause__, other.__cause__ = other, one
        raise one

    def made() -> None:
        exec(compile("def f():\n    raise OSError\nf()", "gone \udcff.py", "exec"), {})

    assert "no words" not in describe(caught(mute))
    for function in (mute, circle, made):
        assert stack_of(caught(function)).encode()
    assert place_of(caught(made)) == "gone \udcff.py:2 in f"
    linecache.clearcache()


def test_an_error_that_was_never_raised_has_neither() -> None:
    """It was made and handed over."""
    assert (place_of(ValueError("x")), stack_of(ValueError("x"))) == ("", "")


@pytest.mark.parametrize("value", [ValueError("x"), contextlib.suppress])
def test_what_a_worker_process_says_of_an_error_is_believed(value: Any) -> None:
    """Its frames are there, not here; the stack has no text of the error, which the whole traceback has."""

    def fails() -> None:
        if isinstance(value, Exception):
            raise value
        raise type("Local", (Exception,), {})("hunter2")

    error = caught(fails)
    reported = unpack_error(pack_error(error), 7)
    assert isinstance(reported.__cause__, RemoteTraceback)
    assert place_of(reported) == place_of(error)
    assert place_of(reported).endswith(" in fails")
    assert stack_of(reported) == stack_of(error)


def test_an_error_is_described_with_its_type_once() -> None:
    """Also one whose own text begins with it, here and out of a worker process."""

    class TypedError(Exception):
        def __str__(self) -> str:
            return "TypedError: broken"

    for error in (TypedError(), unpack_error(pack_error(TypedError()), 1)):
        assert describe(error) == "TypedError: broken"
    assert describe(ValueError("TypedError: broken")) == "ValueError: TypedError: broken"
    assert describe(KeyError("a")) == "KeyError: 'a'"
