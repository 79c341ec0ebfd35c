"""Takes a rotated key up while a client runs.

A daemon thread of its own reads the credential again and again, because a callable may block or raise;
the client's own thread hands a changed key to librdkafka. librdkafka uses it for the next connection
and the next re-authentication and leaves connections that stand alone. Never shows the key.

Works for any client of confluent-kafka that authenticates by a connection string.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Protocol

from ehkafka.errors import ConfigurationError
from ehkafka.events import CredentialRotated, CredentialUnusable
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ehkafka.endpoint.keys.rotation import RotatingCredential
    from ehkafka.events import Event

# A read that takes longer is reported.
HANGING_S = 30.0
# The least time between two reads: a refused client asks for one with every attempt.
SPACING_S = 0.5


class _Client(Protocol):
    def set_sasl_credentials(self, username: str, password: str, /) -> object: ...


class CredentialWatch:
    """Follows a credential for one client. Without a credential it does nothing and costs no thread.

    Make it before the client is opened; then `start`, `apply` now and then, `stop` before the client is
    closed. `emit` is called on the watch's thread and on the client's.
    """

    def __init__(
        self,
        credential: RotatingCredential | None,
        emit: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credential = credential
        self._emit = emit
        self._clock = clock
        self._thread: threading.Thread | None = None
        # Set by any thread: look now, and end.
        self._wake = threading.Event()
        self._stopping = threading.Event()
        # The client's thread only.
        self._client: _Client | None = None
        self._applied = credential.current() if credential is not None else None
        # The start of the read that was reported as hanging.
        self._hanging_since_s: float | None = None
        # Written by the watch's thread only; `apply` reads since when it reads, `problem` all three.
        self._reading_since_s: float | None = None
        self._failures = 0
        self._reason = ""

    def start(self, client: _Client) -> None:
        """Begin to read. On the client's thread, like `apply`."""
        if self._credential is None:
            return
        self._client = client
        self._thread = threading.Thread(target=self._main, name="ehkafka-credential", daemon=True)
        self._thread.start()

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is one on which the user's callable is read."""
        credential = self._credential
        return thread is self._thread or (credential is not None and credential.owns(thread))

    def stop(self) -> None:
        """End without waiting: a read may block for as long as it likes. `apply` does nothing any more."""
        self._client = None
        self._stopping.set()
        self._wake.set()

    def check_now(self) -> None:
        """Read soon instead of at the next turn: the broker has refused the key. From any thread."""
        self._wake.set()

    def apply(self) -> None:
        """Give the client a changed key. Only on the thread that owns it, and never after its close.

        librdkafka would take it on any thread, but a closed client ends the process.
        """
        if self._client is None or self._credential is None:
            return
        login = self._credential.current()
        if login != self._applied:
            self._client.set_sasl_credentials(login.username, login.password.reveal())
            self._applied = login
            self._emit(CredentialRotated(self._credential.source.name))
        since_s = self._reading_since_s
        if (reason := self._hanging()) is not None and since_s != self._hanging_since_s:
            self._hanging_since_s = since_s
            self._emit(CredentialUnusable(self._credential.source.name, reason, 1))

    @property
    def problem(self) -> str | None:
        """Why a rotated key would not be seen, while that lasts. A single failed read is none yet.

        From any thread.
        """
        if self._credential is None:
            return None
        reason = self._hanging()
        if reason is None and self._failures > 1:
            reason = f"{self._failures} reads in a row failed: {self._reason}"
        if reason is None:
            return None
        return f"The access key in use cannot be renewed from {self._credential.source.name}: {ended(reason)}"

    def _main(self) -> None:
        credential = self._credential
        assert credential is not None
        while not self._stopping.is_set():
            self._wake.wait(max(0.0, credential.source.interval_s - SPACING_S))
            self._wake.clear()
            if not self._stopping.wait(SPACING_S):
                self.check(credential)

    def check(self, credential: RotatingCredential) -> None:
        """Read once, and report a failure; the log leaves out repetitions. On the watch's thread."""
        self._reading_since_s = self._clock()
        try:
            credential.reload()
        except ConfigurationError as error:
            self._report_failure(credential.source.name, str(error))
        except BaseException as error:  # a callable's sys.exit() must not end the watch
            self._report_failure(credential.source.name, f"the read ended with {type(error).__qualname__}")
        else:
            self._failures = 0
        finally:
            self._reading_since_s = None

    def _report_failure(self, source: str, reason: str) -> None:
        # In this order: `problem` reads them in the other one.
        self._reason = reason
        self._failures += 1
        self._emit(CredentialUnusable(source, reason, self._failures))

    def _hanging(self) -> str | None:
        since_s, now_s = self._reading_since_s, self._clock()
        if since_s is None or now_s - since_s < HANGING_S:
            return None
        return f"a read has not returned for {now_s - since_s:.0f} s, so a rotated access key is not noticed"
