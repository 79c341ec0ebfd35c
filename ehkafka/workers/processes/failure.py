"""What a handler raised in a worker process, made to travel: packed there, rebuilt in the parent.

Many exceptions cannot be pickled, or cannot be rebuilt. The name, the text and the traceback travel always,
so that nothing is lost; the exception itself goes along if the child could rebuild it from its own bytes. The
parent unpickles only what its own children wrote.
"""

from __future__ import annotations

import functools
import marshal
import pickle
import traceback
from typing import Any, NamedTuple

from ehkafka.errors import describe
from ehkafka.wording.error_stack import RemoteTraceback, place_of, stack_of

# A pickled exception or a traceback longer than this says no more than its type and text.
PICKLED_BYTES_MAX = 1 << 20
TRACEBACK_CHARACTERS_MAX = 20_000


class RemoteError(Exception):
    """Stands for an error of a worker process that cannot be rebuilt here; its class has that one's name."""


class _BaseRemoteError(BaseException):
    """The same for what is no `Exception`: it must not be taken for the record's failure here either."""


class PackedError(NamedTuple):
    """The plain parts of an exception."""

    module: str
    name: str
    text: str
    is_exception: bool
    trace: str
    pickled: bytes
    # Of the user's code, as `error_stack` says it.
    place: str
    stack: str


def pack_error(error: BaseException) -> bytes:
    """Return the bytes of an exception. Never raises."""
    kind = type(error)
    shown = describe(error)
    text = "" if shown == kind.__name__ else shown.removeprefix(f"{kind.__name__}: ")
    parts = PackedError(
        str(kind.__module__),
        kind.__qualname__,
        text,
        isinstance(error, Exception) and not isinstance(error, MemoryError),
        _trace(error),
        _pickled(error),
        place_of(error).encode(errors="replace").decode(),
        stack_of(error),
    )
    return marshal.dumps(tuple(parts))


def unpack_error(body: bytes, pid: int) -> BaseException:
    """Return the exception that a child packed, or what stands for it; its cause says where it was raised."""
    parts = PackedError(*marshal.loads(body))  # noqa: S302 - our own child wrote it
    error = _rebuilt(parts.pickled)
    if error is None:
        error = _stand_in(parts.module, parts.name, parts.is_exception)(parts.text)
    error.__cause__ = RemoteTraceback(f"In worker process {pid}:\n{parts.trace}", parts.place, parts.stack)
    return error


def _trace(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception as broken:  # an error's own __str__ may raise
        text = f"{describe(error)} (its traceback could not be made: {type(broken).__name__})"
    return text[-TRACEBACK_CHARACTERS_MAX:].encode(errors="replace").decode()


def _pickled(error: BaseException) -> bytes:
    try:
        pickled = pickle.dumps(error)
        if len(pickled) <= PICKLED_BYTES_MAX and type(pickle.loads(pickled)) is type(error):  # noqa: S301
            return pickled
    except Exception:  # noqa: S110 - it travels as name, text and traceback
        pass
    return b""


def _rebuilt(pickled: bytes) -> BaseException | None:
    if not pickled:
        return None
    try:
        error: Any = pickle.loads(pickled)  # noqa: S301 - our own child wrote it
    except BaseException:  # its module may not be here, or do anything when it is imported
        return None
    return error if isinstance(error, BaseException) else None


@functools.lru_cache(maxsize=256)
def _stand_in(module: str, name: str, is_exception: bool) -> type[BaseException]:
    base = RemoteError if is_exception else _BaseRemoteError
    return type(name.rpartition(".")[2], (base,), {"__module__": module, "__qualname__": name})
