"""The exception of a handler in a worker process: packed there, rebuilt in the parent.

Many exceptions cannot be pickled, or cannot be rebuilt. The name, the text and the traceback travel always,
so that nothing is lost; the exception itself goes along if the child could rebuild it from its own bytes. The
parent unpickles only what its own children wrote.
"""

from __future__ import annotations

import functools
import pickle
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ehkafka.errors import describe
from ehkafka.wording.error_stack import RemoteTraceback, place_of, stack_of

if TYPE_CHECKING:
    # Module and name of its class, and whether that is an `Exception`; its text and its traceback; where the
    # user's code raised it, in short and with its stack, see `error_stack`; itself, pickled, or nothing.
    PackedError = tuple[str, str, bool, str, str, str, str, bytes]

# A pickled exception or a traceback longer than this tells no more than its type and text.
PICKLED_BYTES_MAX = 1 << 20
TRACEBACK_CHARACTERS_MAX = 20_000


class RemoteError(Exception):
    """Stands for an error of a worker process that cannot be rebuilt here; its class has that one's name."""


class _BaseRemoteError(BaseException):
    """The same for what is no `Exception`: it must not be taken for the record's failure here either."""


def pack_error(error: BaseException) -> PackedError:
    """Return an exception as plain values. Never raises."""
    kind = type(error)
    shown = describe(error)
    text = "" if shown == kind.__name__ else shown.removeprefix(f"{kind.__name__}: ")
    is_exception = isinstance(error, Exception) and not isinstance(error, MemoryError)
    traced = _utf8(_trace(error)[-TRACEBACK_CHARACTERS_MAX:])
    where = _utf8(place_of(error)), stack_of(error)
    return str(kind.__module__), kind.__qualname__, is_exception, text, traced, *where, _pickled(error)


def unpack_error(packed: PackedError, pid: int) -> BaseException:
    """Return the exception that a child packed, or a stand-in for it; its cause tells where that was."""
    *named, text, traced, place, stack, pickled = packed
    if (error := _rebuilt(pickled)) is None:
        error = _stand_in(*named)(text)
    error.__cause__ = RemoteTraceback(f"In worker process {pid}:\n{traced}", place, stack)
    return error


def _utf8(text: str) -> str:
    return text.encode(errors="replace").decode()


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as broken:  # an error's own __str__ may raise
        return f"{describe(error)} (its traceback could not be made: {type(broken).__name__})"


def _pickled(error: BaseException) -> bytes:
    with suppress(Exception):  # it travels as name, text and traceback
        pickled = pickle.dumps(error)
        if len(pickled) <= PICKLED_BYTES_MAX and type(_rebuilt(pickled)) is type(error):
            return pickled
    return b""


def _rebuilt(pickled: bytes) -> BaseException | None:
    try:
        error: Any = pickle.loads(pickled)  # noqa: S301 - our own child wrote it
    except BaseException:  # there is none, or its module is not here, or does anything when it is imported
        return None
    return error if isinstance(error, BaseException) else None


@functools.lru_cache(maxsize=256)
def _stand_in(module: str, name: str, is_exception: bool) -> type[BaseException]:
    base = RemoteError if is_exception else _BaseRemoteError
    return type(name.rpartition(".")[2], (base,), {"__module__": module, "__qualname__": name})
