"""A connection string whose key may change while clients use it.

Holds the last good one and takes a new one only if it leads to the same place: an endpoint never moves.
Thread-safe; a failed read leaves everything as it was. Starts no thread that lives on: who follows a
running client is `watch`.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from ehkafka.endpoint.keys.source import CredentialSource
    from ehkafka.settings.secret import Secret

# What a new client waits for a callable before it takes the string read last.
REFRESH_S = 5.0
# librdkafka waits up to 10 s between two attempts once it was refused, and a new key does not cut that
# short. A rotation that arrives late shall be over sooner.
RECONNECT_BACKOFF_MAX_MS = 2_000


class Login(NamedTuple):
    """A user name and its password, for SASL PLAIN."""

    username: str
    password: Secret


class RotatingCredential:
    """The connection string of a source, read when made, and again at each request.

    Raises `ConfigurationError` when the first read gives nothing usable. `source` names itself safely.
    """

    def __init__(self, source: CredentialSource) -> None:
        self.source = source
        # One read at a time: a user's callable need not be thread-safe.
        self._reading = threading.Lock()
        # Replaced under the lock, never changed; read by any thread without it.
        self._last = self._read()
        # The thread that read last for a new client. Written by the thread that makes one.
        self._reader: threading.Thread | None = None

    @property
    def connection_string(self) -> ConnectionString:
        """The last good one. Only its key, and the key's name, ever differ from the first one's."""
        return self._last

    def current(self) -> Login:
        """Return the last good login; reads no source, never blocks."""
        return Login(self._last.username, self._last.text)

    def reload(self) -> None:
        """Read again. Raises `ConfigurationError` when that gives nothing usable; the old one stays."""
        with self._reading:
            found = self._read()
            if moved := _moved(self._last, found):
                raise ConfigurationError(
                    f"{self.source.name}: {' and '.join(moved)} changed, but a running app can change only "
                    f"its access key; the old access key stays in use. To connect to the new address, "
                    f"restart the app"
                )
            if found != self._last:
                self._last = found

    def client_properties(self) -> dict[str, Any]:
        """Return what a new client needs, after another read. The password is in the clear."""
        self._refresh()
        return {
            **self._last.client_properties(),
            "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        }

    def _refresh(self) -> None:
        if not self.source.may_block:
            self._reload_quietly()
            return
        # It may never return; then the thread is left to the process's end.
        thread = threading.Thread(target=self._reload_silently, name="ehkafka-credential-read", daemon=True)
        self._reader = thread
        thread.start()
        thread.join(REFRESH_S)

    def owns(self, thread: threading.Thread) -> bool:
        """Tell whether a thread is the one that reads for a new client."""
        return thread is self._reader

    def _reload_quietly(self) -> None:
        # The one read last may still be good. The watch of a running client tells of what is wrong, and a
        # client without one is refused by the broker if it is not.
        with suppress(ConfigurationError):
            self.reload()

    def _reload_silently(self) -> None:
        # A callable may raise what is no Exception; a thread's last words would print its text.
        with suppress(BaseException):
            self._reload_quietly()

    def _read(self) -> ConnectionString:
        text = self.source.read()
        try:
            return ConnectionString.parse(text)
        except ConfigurationError as error:
            shown = str(error)
        raise ConfigurationError(f"{self.source.name}: {shown}")


def _moved(old: ConnectionString, new: ConnectionString) -> list[str]:
    """Name what differs of the place that a connection string leads to."""
    places = {
        "Endpoint": ((old.host, old.port), (new.host, new.port)),
        "EntityPath": (old.entity_path, new.entity_path),
        "UseDevelopmentEmulator": (old.is_emulator, new.is_emulator),
    }
    return [name for name, (before, now) in places.items() if before != now]
