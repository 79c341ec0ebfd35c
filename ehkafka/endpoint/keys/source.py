"""Where a connection string that may change comes from: a file, or a callable of the user's.

Each source reads the text afresh and says in our own error why it cannot, without any of the text: not
what a callable's exception says, and not what a decoder quotes. Keeps nothing. `read` may block; the
endpoint calls it while it is made, then it is called on threads where that does no harm.
"""

from __future__ import annotations

import inspect
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ehkafka.errors import ConfigurationError
from ehkafka.wording.calling import is_async, named

if TYPE_CHECKING:
    from collections.abc import Callable

# Fifty times the longest connection string: whatever is longer is another file.
FILE_BYTES_MAX = 16_384
FILE_INTERVAL_S = 1.0
# A callable may ask a key vault, which counts requests.
CALLABLE_INTERVAL_S = 5.0

# No part of a connection string comes without one of these, however it was cut.
_SIGNS_OF_TEXT = ("=", ";", "sharedaccess")


class FileSource:
    """A file whose whole text is the connection string, as a mounted secret is.

    `name` is safe to show, `interval_s` the time between two reads while a client runs. `may_block` tells
    that a read runs a user's code, which may take any time; `read` raises `ConfigurationError`.
    The file is read whole each time instead of watched by its time and size: a new key is as long as the old
    one, and file systems round their times. A path with symbolic links is followed anew each time.
    """

    interval_s = FILE_INTERVAL_S
    may_block = False

    def __init__(self, path: os.PathLike[str]) -> None:
        text = os.fsdecode(path)
        # Our errors show the path, so it must be none that was meant to be the string itself.
        if any(sign in text.lower() for sign in _SIGNS_OF_TEXT) and not _is_there(text):
            raise ConfigurationError(
                "the path of the connection-string file looks like a connection string itself, so it is "
                "not shown here: give the string as text, without Path(…)"
            )
        # Absolute, because a process may change its directory; not resolved, because mounts move links.
        self.path = Path(text).absolute()
        self.name = f"file {self.path}"

    def read(self) -> str:
        """Return the file's text; a byte-order mark is taken off."""
        content = self._content()
        if len(content) > FILE_BYTES_MAX:
            raise _unreadable(
                self.name, f"it is larger than {FILE_BYTES_MAX} bytes: check that it is the right file"
            )
        text = _decoded(content)
        if text is None:
            raise _unreadable(self.name, "it is not UTF-8 text: save it again as UTF-8")
        if not text.strip():
            raise _unreadable(self.name, "it is empty: write the connection string into it")
        return text

    def _content(self) -> bytes:
        try:
            if stat.S_ISREG(self.path.stat().st_mode):
                with self.path.open("rb") as file:
                    return file.read(FILE_BYTES_MAX + 1)
            # A pipe would block, and have nothing to say when it is read again.
            shown = "it is not a regular file, so it cannot be read again when the access key is rotated"
        except FileNotFoundError:
            shown = "it does not exist; check the path and the mount"
        except OSError as error:
            shown = f"{error.strerror or type(error).__name__}; check its owner and mode"
        except ValueError:
            shown = "the path holds a character that no path has"
        raise _unreadable(self.name, shown)


class CallableSource:
    """A function of the user's that returns the connection string."""

    interval_s = CALLABLE_INTERVAL_S
    may_block = True

    def __init__(self, call: Callable[[], str]) -> None:
        self.name = f"callable {getattr(call, '__module__', '')}.{named(call)}"
        if is_async(call):
            raise _unreadable(self.name, "it is async: give a plain function, such as lambda: asyncio.run(…)")
        self._call = call

    def read(self) -> str:
        """Return what the callable returns."""
        try:
            value: object = self._call()
        except Exception as error:  # reported without its text, which may quote the secret
            shown = (
                f"it raised {_where_raised(error)}. Call the function yourself to see the error's text, "
                f"which may contain the access key and is therefore not shown here"
            )
        else:
            if isinstance(value, str):
                return value
            if inspect.iscoroutine(value):
                value.close()
            shown = f"it returned {type(value).__name__}, not text"
        # Outside of the handler: the callable's exception must not even be our error's context.
        raise _unreadable(self.name, shown)


CredentialSource: TypeAlias = FileSource | CallableSource


def credential_source(value: object) -> CredentialSource | None:
    """Return the source behind a path or a callable, `None` for anything else."""
    if isinstance(value, os.PathLike):
        return FileSource(value)
    return CallableSource(value) if callable(value) else None


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # such as a name that is too long
        return False


def _unreadable(name: str, shown: str) -> ConfigurationError:
    return ConfigurationError(f"the connection string cannot be read from {name}: {shown}")


def _decoded(content: bytes) -> str | None:
    # A decoder's error carries the bytes themselves, so it ends here.
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def _where_raised(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__module__}.{type(error).__qualname__}{place}"
