"""Keys of users' own types, as lanes know them: no code of a user's runs where keys are hashed or compared.

Lanes are found under the bookkeeping lock, by any thread. So a key that is not wholly of Python's own types
is replaced, on the poll thread and outside of the lock, by a `UserKey`: one object for all keys that are
equal by what the user's type says, compared by its identity from there on. A key that changes, cannot be
compared later or does not equal itself can lose no lane.

Pure. A key is kept here as long as a lane has it, and until the next sweep: its last reference must not go,
and its finalizer not run, under the lock either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

# Their code is Python's own. A subclass may have code of the user's.
PLAIN: frozenset[type] = frozenset({bytes, str, int, float, bool, complex, type(None)})
# Converts a subclass's object to its plain type without running its code. Equal keys of unrelated types, such
# as `1` and `Decimal(1)`, are two keys.
_EXACT: dict[type, Callable[[Any], Hashable]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda key: bytes(memoryview(key)),
}
# Keys known before the first look for those that no lane has.
KNOWN_MIN = 64


class UserKey:
    """Stands for all equal keys of a user's type. Equal to nothing but itself."""

    __slots__ = ("__weakref__", "key")

    def __init__(self, key: Hashable) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"<UserKey of a {type(self.key).__name__}>"


class UserKeys:
    """The keys of one order function. The poll thread's."""

    def __init__(self, own_kinds: frozenset[type]) -> None:
        """`own_kinds` are key types of ours."""
        self._kinds = PLAIN | own_kinds
        # By the user's hash.
        self._known: dict[int, list[tuple[ref[UserKey], Hashable]]] = {}
        self._count = 0
        self._sweep_at = KNOWN_MIN

    def stand_in(self, key: Hashable) -> Hashable:
        """Return by what a lane of this key is found. Raises what the key's own code raises."""
        kinds = self._kinds
        if type(key) in kinds or (type(key) is tuple and kinds.issuperset(map(type, key))):
            return key
        plain = self._plain(key)
        if plain is not _NOT_PLAIN:
            return plain
        value = hash(key)
        for known, its_key in self._known.get(value, ()):
            own = known()
            # As a dict would: the same object is equal, whatever it says.
            if own is not None and (its_key is key or its_key == key):
                return own
        if self._count >= self._sweep_at:
            self._sweep()
        own = UserKey(key)
        self._known.setdefault(value, []).append((ref(own), key))
        self._count += 1
        return own

    def _sweep(self) -> None:
        """Let go of keys that no lane has any more: state follows the backlog, not the keys seen."""
        found = {
            value: [known for known in bucket if known[0]() is not None]
            for value, bucket in self._known.items()
        }
        self._known = {value: bucket for value, bucket in found.items() if bucket}
        self._count = sum(map(len, self._known.values()))
        self._sweep_at = max(KNOWN_MIN, 2 * self._count)

    def _plain(self, key: Hashable) -> Hashable:
        """Return the key of Python's own types that equals a key and shares its lane, if there is one."""
        if type(key) in self._kinds:
            return key
        if isinstance(key, tuple):
            plain: Hashable = tuple(map(self._plain, tuple.__iter__(key)))
            if any(part is _NOT_PLAIN for part in plain):  # type: ignore[attr-defined]
                return _NOT_PLAIN
        else:
            base = next((base for base in _EXACT if isinstance(key, base)), None)
            if base is None:
                return _NOT_PLAIN
            plain = _EXACT[base](key)
        return plain if hash(key) == hash(plain) and key == plain else _NOT_PLAIN


_NOT_PLAIN: Hashable = object()


def users_key(key: Hashable) -> Hashable:
    """Return a lane's key as the order function gave it."""
    return key.key if isinstance(key, UserKey) else key
