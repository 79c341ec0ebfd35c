"""Keys of a user's own types: their code runs where keys are read alone, and it loses no lane."""

from __future__ import annotations

import enum
import gc
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ehkafka.lanes.inbox import KEY
from ehkafka.lanes.order import KeyFailure, describe_key
from ehkafka.lanes.user_keys import KNOWN_MIN, UserKey, UserKeys, users_key
from tests.kit.inbox_bench import InboxBench
from tests.kit.simulated.message import SimulatedMessage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from ehkafka.lanes.order import Scope

# Where code of the user's may run; else it fails the test.
_allowed = True
_broken: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_elsewhere() -> Iterator[None]:
    _broken.clear()
    yield
    assert not _broken


def _note(what: str) -> None:
    if not _allowed:
        _broken.append(what)


class Jealous:
    """A key whose code must not run where it is not allowed to."""

    def __init__(self, name: bytes | None) -> None:
        self.name = name

    def __hash__(self) -> int:
        _note("hash")
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        _note("eq")
        return isinstance(other, Jealous) and other.name == self.name

    def __str__(self) -> str:
        _note("str")
        return "jealous"

    __repr__ = __str__

    def __del__(self) -> None:
        _note("del")


class _Bench(InboxBench):
    """Allows the user's code where keys are read, and nowhere else."""

    def receive(self, epoch: Any, records: str, **options: Any) -> Any:
        global _allowed  # noqa: PLW0603 - the keys look at it
        read = self.reader.keys

        def keys(messages: Any) -> Any:
            global _allowed  # noqa: PLW0603
            _allowed = True
            try:
                return read(messages)
            finally:
                _allowed = False

        self.reader.keys = keys  # type: ignore[method-assign]
        _allowed = False
        try:
            return super().receive(epoch, records, **options)
        finally:
            self.reader.keys = read  # type: ignore[method-assign]


def _close(bench: _Bench) -> None:
    global _allowed  # noqa: PLW0603
    _allowed = True
    del bench.reader
    gc.collect()


@pytest.mark.parametrize("tupled", [False, True])
@pytest.mark.parametrize("scope", ["partition", "handler"])
def test_no_code_of_a_key_runs_where_records_are_kept(scope: Scope, *, tupled: bool) -> None:
    """Receiving, running, moving, pausing, draining and ending: nothing of the user's runs."""

    def order_by(message: Any) -> Hashable:
        key = Jealous(message.key())
        return (key, 1) if tupled else key

    bench = _Bench(scope, order_by=order_by, consumers=2)
    epoch = bench.assign()
    bench.receive(epoch, "a0 b1 a2 c3 a4")
    first = bench.call()
    bench.check(1.0)
    bench.check(2.0)
    bench.receive(epoch, "a5 d6")
    key = first.entry[KEY]
    bench.finish(first)
    bench.waiting.pause_key(key, epoch)
    bench.work()
    bench.waiting.resume_key(key, epoch)
    bench.work()
    assert [text for text in bench.started if text[0] == "a"] == ["a0", "a2", "a4", "a5"]
    bench.receive(epoch, "a7 b8")
    bench.drain(epoch, below_started=False)
    bench.inboxes.ending.end([epoch])
    _close(bench)


class Restless:
    """A key that hashes otherwise at each call, and equals nothing, not even itself."""

    calls = 0

    def __hash__(self) -> int:
        type(self).calls += 1
        return self.calls

    def __eq__(self, other: object) -> bool:
        return False


def test_a_key_that_equals_nothing_is_one_key_while_it_is_the_same_object() -> None:
    """As in a dict: identity comes before equality, also for NaN."""
    same = Restless.__new__(Restless)
    type(same).calls = 0
    keys = UserKeys(frozenset())
    nan = math.nan
    assert keys.stand_in(nan) is nan
    for key in (("x", same), same):
        own = keys.stand_in(key)
        assert isinstance(own, UserKey)


class Spiteful:
    """A key that can be hashed and not compared."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise TypeError("no comparison")


def test_a_key_that_cannot_be_compared_fails_its_record_alone() -> None:
    """Where the comparison raises, the record fails as if the order function had; the others go on."""
    one = Spiteful()
    keys: dict[int, Hashable] = {0: one, 1: Spiteful(), 2: one, 3: b"x"}
    bench = InboxBench(order_by=lambda message: keys[message.offset()])
    found = bench.reader.keys([SimulatedMessage("t", 0, offset) for offset in range(4)])
    assert [type(key) for key in found] == [UserKey, KeyFailure, UserKey, bytes]
    assert found[0] is found[2]


def test_what_lanes_do_not_have_any_more_is_forgotten() -> None:
    """State follows the backlog, not the number of keys seen."""
    keys = UserKeys(frozenset())
    kept = [keys.stand_in(Jealous(b"%d" % number)) for number in range(100)]
    for number in range(100, 20_000):
        keys.stand_in(Jealous(b"%d" % number))
        assert keys._count <= 2 * len(kept) + KNOWN_MIN + 1
    assert [keys.stand_in(Jealous(b"%d" % number)) for number in range(100)] == kept


class _Home(NamedTuple):
    name: str
    number: int


class _Color(enum.StrEnum):
    RED = "red"


class _Text(str):
    __slots__ = ()


class _Other(str):
    """Compares otherwise than its text."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 5

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Other)


@pytest.mark.parametrize(
    ("key", "own"),
    [
        (b"a", b"a"),
        ("a", "a"),
        (("a", 1, b"c", None), ("a", 1, b"c", None)),
        (_Text("a"), "a"),
        (_Color.RED, "red"),
        (("x", _Text("a")), ("x", "a")),
        ((("x", ("y",)),), (("x", ("y",)),)),
        (_Home("a", 1), ("a", 1)),
    ],
)
def test_a_key_that_equals_one_of_pythons_own_shares_its_lane(key: Hashable, own: Hashable) -> None:
    """An order function may mix a text and an enum member that equals it, as a dict would."""
    found = UserKeys(frozenset()).stand_in(key)
    assert found == own
    assert type(found) is type(own)
    assert hash(found) == hash(own)


@pytest.mark.parametrize(
    "key", [_Other("a"), frozenset({1}), ("x", _Other("a")), (frozenset(),), Jealous(b"")]
)
def test_other_types_are_stood_in_for(key: Hashable) -> None:
    """Also a tuple that holds one: comparing it would run the user's code."""
    keys = UserKeys(frozenset())
    own = keys.stand_in(key)
    assert isinstance(own, UserKey)
    assert users_key(own) is key
    assert keys.stand_in(key) is own
    assert describe_key(own) == describe_key(key)


_parts = st.recursive(
    st.one_of(st.integers(-2, 2), st.booleans(), st.sampled_from(["", "a", _Text("a"), b"a", None, 1.0]))
    | st.builds(frozenset, st.lists(st.integers(0, 1))),
    lambda parts: st.tuples(parts, parts),
    max_leaves=4,
)


@given(st.lists(_parts, max_size=12))
def test_stand_ins_are_equal_where_keys_are(keys: list[Any]) -> None:
    """Lanes are the same as with the keys themselves."""
    table = UserKeys(frozenset())
    own = [table.stand_in(key) for key in keys]
    for one, stands in zip(keys, own, strict=True):
        assert [stands == other for other in own] == [one == other for other in keys]
