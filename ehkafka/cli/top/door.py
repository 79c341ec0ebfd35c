"""Asks an app's HTTP interface, one request at a time on its caller's thread. The token is never shown."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from ehkafka.errors import ConfigurationError, EhkafkaError

if TYPE_CHECKING:
    from ehkafka.settings.secret import Secret

ANSWER_S: Final = 5.0
# A redrive takes as long as there are letters.
REDRIVE_S: Final = 120.0
# A thousand partitions are half a megabyte.
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
LETTERS_MAX: Final = 50


class UnansweredError(EhkafkaError):
    """Nobody answers, or not as an app of ours does. `str()` is a sentence."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said."""

    status: int
    body: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        """It did what was asked."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The server's sentence."""
        return str(self.body.get("text") or f"The server answered {self.status}.")


@dataclass(frozen=True, slots=True)
class Door:
    """Where an app answers. `prefix` is the path below which it does, with a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str
    token: Secret | None = field(default=None, repr=False)

    @classmethod
    def at(cls, url: str, token: Secret | None = None) -> Door:
        """Make one of a URL. Raises `ConfigurationError` for what is none."""
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            raise ConfigurationError(f"{url!r} has no port that can be: give http://HOST:PORT.") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{url!r} is no address of an app: give http://HOST:PORT.")
        if parts.username or parts.password or parts.query or parts.fragment:
            # Not repeated: it may be a secret.
            raise ConfigurationError(
                "The address may have a host, a port and a path alone; the token comes by --token-file or "
                "EHKAFKA_HTTP_TOKEN."
            )
        usual = 443 if parts.scheme == "https" else 80
        return cls(parts.scheme, parts.hostname, port or usual, parts.path.rstrip("/") + "/", token)

    @property
    def url(self) -> str:
        """The address, as it is shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"

    def state(self) -> Answer:
        """Return all that is shown."""
        return self._ask("GET", "state")

    def act(self, action: dict[str, Any]) -> Answer:
        """Do something to a key, a partition or a handler, or say what it would do."""
        return self._ask("POST", "actions", action)

    def letters(self, topic: str) -> Answer:
        """Return the newest letters of a topic."""
        return self._ask("GET", f"letters?topic={quote(topic, safe='')}&limit={LETTERS_MAX}")

    def redrive(self, topic: str, *, preview: bool) -> Answer:
        """Send a topic's letters home, or say how many there are."""
        return self._ask("POST", "letters/redrive", {"topic": topic, "preview": preview}, REDRIVE_S)

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float = ANSWER_S
    ) -> Answer:
        connect = http.client.HTTPSConnection if self.scheme == "https" else http.client.HTTPConnection
        connection = connect(self.host, self.port, timeout=timeout_s)
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            # Redirects are not followed: the token would go along.
            connection.request(
                method, self.prefix + path, json.dumps(body) if body is not None else None, headers
            )
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise UnansweredError(f"No app answers at {self.url}: {_reason(error)}.") from None
        finally:
            connection.close()
        return Answer(answer.status, self._read(content, answer.status))

    def _read(self, content: bytes, status: int) -> dict[str, Any]:
        if status == http.client.NO_CONTENT:
            return {}
        try:
            read = json.loads(content) if len(content) <= ANSWER_BYTES_MAX else None
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise UnansweredError(
                f"What answers at {self.url} is no app of ehkafka's: status {status}, and no JSON that fits."
            )
        return read


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:g} s"
    text = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return text[:1].lower() + text[1:]
