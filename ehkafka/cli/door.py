"""Asks the HTTP side of one running app. The token goes into a header and nowhere else."""

from __future__ import annotations

import http.client
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from ehkafka.errors import ActionRefusedError, ConfigurationError, EndpointError
from ehkafka.http.options import TOKEN_VARIABLE
from ehkafka.wording.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

USUAL_URL: Final = "http://127.0.0.1:8080"
# A thousand partitions are half a megabyte.
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
TEXT_CHARACTERS_MAX: Final = 1_000
# A redrive takes as long as there are letters; to list some, a topic is read.
REDRIVE_S: Final = 600.0
LETTERS_S: Final = 30.0
LETTERS_MAX: Final = 50
LABEL_CHARACTERS_MAX: Final = 63
# What is read of answers; whatever else listens there is no app of ours.
KEY_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("name", "key", "status", "handler", "last_error"), (str,)),
    **dict.fromkeys(("attempts", "records", "is_blocking"), (int,)),
    "age_s": (int, float),
}
RESULT_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {"text": (str,), "name": (str,)}


@dataclass(frozen=True, slots=True)
class Answer:
    """What an app said: its status, and its JSON."""

    status: int
    body: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        """It did what was asked."""
        return self.status == http.client.OK

    @property
    def text(self) -> str:
        """Its sentence, cut."""
        text = self.body.get("text")
        return text[:TEXT_CHARACTERS_MAX] if isinstance(text, str) and text else "nothing that says why."


class Door:
    """One app's address. A redirect is not followed: the token would go with it."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        """Raises `ConfigurationError` for what is no URL."""
        parts = _parts_of(url)
        if parts is not None and (parts.username or parts.password):
            # Not repeated.
            raise ConfigurationError(
                "The URL contains a user name or password: leave it out, and give the token in a file."
            )
        if parts is None:
            # What stands behind may be a token.
            shown = re.split("[?#]", url, maxsplit=1)[0]
            raise ConfigurationError(
                f"The URL {one_line(shown)}: give only the address of a running app, such as "
                "http://127.0.0.1:8080."
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port = parts.hostname or "", parts.port
        self._path = parts.path.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s

    def waiting(self) -> list[dict[str, Any]]:
        """Return the keys that wait. Raises `EndpointError`, and `ConfigurationError` about the token."""
        answer = self.state()
        if not answer.is_ok:
            raise self.failure(answer)
        found = answer.body.get("keys")
        if not isinstance(found, list) or not all(_has(one, KEY_FIELDS) for one in found):
            raise EndpointError(f"{self.url} answered, but is not an ehkafka app: check the address.")
        return found

    def act(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Carry out an action. Raises `ActionRefusedError`, and what `waiting` raises."""
        answer = self.action(asked)
        if answer.is_ok and _has(answer.body, RESULT_FIELDS):
            return answer.body
        reason, names = answer.body.get("reason"), answer.body.get("names")
        if not answer.is_ok and isinstance(reason, str) and isinstance(names, list):
            text = f"{self.url}: {answer.text}"
            raise ActionRefusedError(reason, text, tuple(str(name) for name in names[:20]))
        raise self.failure(answer)

    def state(self) -> Answer:
        """Return all that the page shows. Raises `EndpointError`, as all below."""
        return self.ask("GET", "/state")

    def action(self, asked: dict[str, Any]) -> Answer:
        """Do something to a key, a partition or a handler, or say what it would do."""
        return self.ask("POST", "/actions", asked)

    def letters(self, topic: str) -> Answer:
        """Return the newest letters of a topic."""
        path = f"/letters?topic={quote(topic, safe='')}&limit={LETTERS_MAX}"
        return self.ask("GET", path, timeout_s=LETTERS_S)

    def redrive(self, topic: str, *, preview: bool) -> Answer:
        """Send a topic's letters home, or say how many there are."""
        return self.ask("POST", "/letters/redrive", {"topic": topic, "preview": preview}, REDRIVE_S)

    def failure(self, answer: Answer) -> EndpointError | ConfigurationError:
        """Return what is wrong with an answer that is not what was asked for."""
        if answer.status != http.client.UNAUTHORIZED:
            return EndpointError(f"{self.url} answered {answer.status}: {answer.text}")
        if self._token is None:
            return ConfigurationError(
                f"The app at {self.url} requires the token: set {TOKEN_VARIABLE}, or give --token-file."
            )
        return ConfigurationError(
            f"The app at {self.url} refuses the token of {TOKEN_VARIABLE} or --token-file: give the token "
            f"of that app."
        )

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, timeout_s: float | None = None
    ) -> Answer:
        """Return whatever it answers. Raises `EndpointError` where it does not, or not as an app of ours."""
        headers = {"accept": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["content-type"] = "application/json"
        connection = self._kind(self._host, self._port, timeout=timeout_s or self._timeout_s)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, f"{self._path}{path}", payload, headers)
            # An answer without a length keeps the socket, even after the connection is closed.
            with connection.getresponse() as answer:
                # Not orjson, which refuses half of a character pair: one odd text would hide all others.
                found = json.loads(answer.read(ANSWER_BYTES_MAX))
        except (OSError, http.client.HTTPException) as error:
            raise EndpointError(
                f"{self.url} does not answer: {error or type(error).__name__}. Is the app started with "
                "--http, and is this its address?"
            ) from None
        except ValueError:
            found = None
        finally:
            connection.close()
        if not isinstance(found, dict):
            raise EndpointError(
                f"{self.url} answered, but not in JSON, so it is not an ehkafka app: check the address."
            )
        return Answer(answer.status, found)


def _parts_of(url: str) -> SplitResult | None:
    """Return the parts of a URL; None for what is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
        more = parts.query or parts.fragment
        fits = parts.scheme in ("http", "https") and host and port != 0 and not more
        if not fits or not url.isprintable() or " " in url:
            return None
        parts.netloc.encode("idna" if host and not host.isascii() else "ascii")
        return parts if host and max(map(len, host.split("."))) <= LABEL_CHARACTERS_MAX else None
    except ValueError:
        return None


def _has(body: object, fields: Mapping[str, tuple[type, ...]]) -> bool:
    return isinstance(body, dict) and all(isinstance(body.get(name), kinds) for name, kinds in fields.items())
