"""An app that runs in this process while the screen shows it, on a thread of its own, and stops with it.

It serves a port of this machine with a token of its own, and the screen asks that as any other.
What logs to the terminal waits until the screen is gone.
"""

from __future__ import annotations

import contextlib
import io
import logging
import secrets
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ehkafka.errors import EngineError
from ehkafka.events import HttpServing
from ehkafka.http import Http

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka import App
    from ehkafka.events import Event

ADDRESS: Final = "127.0.0.1:0"
LINES_MAX: Final = 200
CHARACTERS_MAX: Final = 10_000
# Beyond what `App.stop` takes, which has a limit of its own.
END_S: Final = 10.0


class AppHere:
    """Runs an app. `open` on the main thread, and `close` there as well."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._thread = threading.Thread(target=self._run, name="ehkafka-top-app", daemon=True)
        # The thread writes them before `_is_known` is set: where it answers, or what has ended it.
        self._is_known = threading.Event()
        self._url = ""
        self._error: BaseException | None = None
        self._http: Http | None = None

    def on_event(self, event: Event) -> None:
        """Note where it serves."""
        if isinstance(event, HttpServing):
            self._url = event.url
            self._is_known.set()

    def open(self) -> tuple[str, str | None]:
        """Start it, and return where it answers and by which token. Raises what ends the start."""
        with contextlib.ExitStack() as undo:
            if self._app.http is None:
                folder = undo.enter_context(tempfile.TemporaryDirectory())
                file = Path(folder) / "token"
                file.touch(0o600)
                file.write_text(secrets.token_urlsafe(24))
                self._http = Http(address=ADDRESS, token_file=file)
            token = (self._http or self._app.http or Http()).read_token()
            self._app.add_hook(self)
            self._thread.start()
            try:
                # In slices: a wait without end would keep Ctrl-C from being handled on some platforms.
                while not self._is_known.wait(0.5):
                    pass
            except KeyboardInterrupt:
                self.close()
                raise
        if not self._url:
            self.close()
            raise EngineError("The app ended during its start.")
        return self._url, token

    def close(self) -> None:
        """Stop it, and raise what ended it, if that was an error."""
        self._app.stop()
        self._thread.join(END_S)
        if self._error is not None:
            raise self._error

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._app.run(http=self._http)
        except BaseException as error:  # the main thread raises it
            self._error = error
        finally:
            self._is_known.set()


class _Later(io.TextIOBase):
    """Keeps the last lines that were written."""

    def __init__(self) -> None:
        self.parts: deque[str] = deque(maxlen=LINES_MAX)

    def write(self, text: str) -> int:
        """Keep it."""
        self.parts.append(text[:CHARACTERS_MAX])
        return len(text)


@contextlib.contextmanager
def terminal_left_alone() -> Iterator[None]:
    """Keep the log back while the block has the terminal; the last lines of it are written afterwards."""
    kept = _Later()
    ours = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    changed = [(one, one.setStream(kept)) for one in _handlers() if one.stream in ours]
    try:
        yield
    finally:
        for handler, stream in changed:
            handler.setStream(stream)
        sys.stderr.write("".join(kept.parts))


def _handlers() -> list[logging.StreamHandler[Any]]:
    """Return the handlers of all loggers that write to a stream."""
    loggers = [logging.getLogger(), *logging.Logger.manager.loggerDict.values()]
    found = [one for logger in loggers if isinstance(logger, logging.Logger) for one in logger.handlers]
    return [one for one in found if isinstance(one, logging.StreamHandler)]
