"""Asks the HTTP side of one running app. The token goes into a header and nowhere else."""

from __future__ import annotations

import http.client
import ssl
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson

from ehkafka.checks import one_line
from ehkafka.errors import ActionRefusedError, ConfigurationError, EndpointError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024
TEXT_CHARACTERS_MAX: Final = 1_000
LABEL_CHARACTERS_MAX: Final = 63
# What is read of answers; whatever else listens there is no app of ours.
KEY_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("name", "key", "status", "handler", "last_error"), (str,)),
    **dict.fromkeys(("attempts", "records", "is_blocking"), (int,)),
    "age_s": (int, float),
}
RESULT_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {"text": (str,), "name": (str,)}
REFUSAL_FIELDS: Final[Mapping[str, tuple[type, ...]]] = {"reason": (str,), "names": (list,)}


class Door:
    """One app's address. A redirect is not followed: the token would go with it."""

    def __init__(self, url: str, token: str | None, timeout_s: float) -> None:
        """Raises `ConfigurationError` for what is no URL."""
        parts = _parts_of(url)
        if parts is None:
            raise ConfigurationError(
                f"--url {one_line(url)}: give the address of a running app, such as http://127.0.0.1:8080."
            )
        if parts.username or parts.password:
            raise ConfigurationError("--url: leave names and passwords out; the token comes from its file.")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._parts = parts
        self._token = token
        self._timeout_s = timeout_s

    def waiting(self) -> list[dict[str, Any]]:
        """Return the keys that wait. Raises `EndpointError`."""
        status, body = self._ask("GET", "/state", None)
        if status != http.client.OK:
            raise EndpointError(f"{self.url} answered {status}: {_text(body)}")
        found = body.get("keys") if isinstance(body, dict) else None
        if not isinstance(found, list) or not all(_has(one, KEY_FIELDS) for one in found):
            raise EndpointError(f"{self.url} answered with something else than keys: no app of ours.")
        return found

    def act(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Carry out an action. Raises `ActionRefusedError` and `EndpointError`."""
        status, body = self._ask("POST", "/actions", asked)
        if status == http.client.OK and _has(body, RESULT_FIELDS):
            found: dict[str, Any] = body
            return found
        if status != http.client.OK and _has(body, REFUSAL_FIELDS):
            names = tuple(str(name) for name in body["names"][:20])
            raise ActionRefusedError(body["reason"], f"{self.url}: {_text(body)}", names)
        raise EndpointError(f"{self.url} answered {status}: {_text(body)}")

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        headers = {"accept": "application/json"}
        if self._token is not None:
            headers["authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["content-type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(
                method,
                f"{self._parts.path.rstrip('/')}{path}",
                None if body is None else orjson.dumps(body),
                headers,
            )
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX)
            return answer.status, orjson.loads(content)
        except (OSError, http.client.HTTPException, ssl.SSLError) as error:
            raise EndpointError(
                f"{self.url} does not answer: {error or type(error).__name__}. Is the app started with "
                "--http, and is this its address?"
            ) from None
        except orjson.JSONDecodeError:
            raise EndpointError(
                f"{self.url} answered with something that is no JSON: no app of ours."
            ) from None
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        return kind(host, port, timeout=self._timeout_s)


def _parts_of(url: str) -> SplitResult | None:
    """Return the parts of a URL; None for what is none."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
        fits = parts.scheme in ("http", "https") and host and port != 0 and not parts.query
        if not fits or not url.isprintable() or " " in url:
            return None
        parts.netloc.encode("idna" if host and not host.isascii() else "ascii")
        return parts if host and max(map(len, host.split("."))) <= LABEL_CHARACTERS_MAX else None
    except ValueError:
        return None


def _has(body: Any, fields: Mapping[str, tuple[type, ...]]) -> bool:
    return isinstance(body, dict) and all(isinstance(body.get(name), kinds) for name, kinds in fields.items())


def _text(body: Any) -> str:
    text = body.get("text") if isinstance(body, dict) else None
    return str(text)[:TEXT_CHARACTERS_MAX] if isinstance(text, str) else "nothing that says why."
