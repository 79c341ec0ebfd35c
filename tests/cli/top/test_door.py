"""What `ehkafka top` asks, of whom, and what it refuses before it takes the terminal."""

from __future__ import annotations

import http.server
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.cli.top import start
from ehkafka.cli.top.door import Door, UnansweredError
from ehkafka.errors import ConfigurationError, MissingExtraError
from ehkafka.settings.secret import Secret
from ehkafka.testing.ports import free_ports
from tests.kit import http_states as states
from tests.kit.http_double import TOKEN, HttpDouble, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    """Sends everybody to itself, and says what came there."""

    def do_GET(self) -> None:
        """Answer."""
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path == "/state":
            self.send_response(302)
            self.send_header("Location", "/caught")
        else:
            self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """Return a server that is no app."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        server.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


def test_the_token_goes_as_a_header_and_is_never_shown() -> None:
    """Not in a URL, not in the repr, not in an error."""
    double = HttpDouble(states.healthy())
    double.is_closed = True
    with served(double) as url:
        door = Door.at(url, Secret(TOKEN))
        assert door.state().is_ok
        assert double.authorizations == [f"Bearer {TOKEN}"]
        assert TOKEN not in repr(door) + door.url
        assert Door.at(url).state().status == 401


def test_nobody_there_is_a_sentence() -> None:
    """With the address and the reason."""
    [port] = free_ports(1)
    with pytest.raises(
        UnansweredError, match=rf"No app answers at http://127.0.0.1:{port}/: connection refused"
    ):
        Door.at(f"127.0.0.1:{port}").state()


def test_a_redirect_is_not_followed(elsewhere: Any) -> None:
    """The token would go along to whoever is named."""
    door = Door.at(f"http://127.0.0.1:{elsewhere.server_port}", Secret(TOKEN))
    with pytest.raises(UnansweredError, match="is no app of ehkafka's: status 302"):
        door.state()
    assert elsewhere.asked == ["/state"]


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h:1",
        "http://",
        "h:x",
        "http://h:99999",
        "http://u:p@h:1",
        "http://h:1/?token=t",
        "http://h:1/#t",
        "",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    """Above all one with something secret in it, which is not repeated."""
    with pytest.raises(ConfigurationError) as caught:
        Door.at(url)
    assert "u:p" not in str(caught.value)
    assert "token=t" not in str(caught.value)


def test_an_address_may_have_a_path() -> None:
    """Of an app that is mounted in another one; and one of IPv6 is shown as it is written."""
    assert Door.at("https://h/ops/shop").url == "https://h:443/ops/shop/"
    assert Door.at("http://[::1]:8080").url == "http://[::1]:8080/"


def test_the_token_comes_from_a_file_or_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file wins; what cannot be a token is refused by name and without being shown."""
    monkeypatch.delenv(start.VARIABLE, raising=False)
    assert start.read_token(None) is None
    monkeypatch.setenv(start.VARIABLE, "from-the-variable")
    assert start.read_token(None) == Secret("from-the-variable")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert start.read_token(file) == Secret(TOKEN)
    for content in (b"", b"two\nlines", b"x" * 1_001, b"caf\xc3\xa9", b"\xff"):
        file.write_bytes(content)
        with pytest.raises(ConfigurationError) as caught:
            start.read_token(file)
        assert "lines" not in str(caught.value).replace("one line", "")
    with pytest.raises(ConfigurationError, match=r"cannot be read from .*: No such file"):
        start.read_token(tmp_path / "none")


def test_what_is_wrong_is_said_before_the_terminal_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is missing or wrong, and an output that is no terminal."""
    monkeypatch.delenv(start.VARIABLE, raising=False)
    double = HttpDouble(states.healthy())
    double.is_closed = True
    with served(double) as url:
        with pytest.raises(ConfigurationError, match=r"needs the token: .* Give it with --token-file"):
            start.top(url, None)
        monkeypatch.setenv(start.VARIABLE, "wrong")
        with pytest.raises(ConfigurationError, match="The token is not the app's"):
            start.top(url, None)
        monkeypatch.setenv(start.VARIABLE, TOKEN)
        with pytest.raises(ConfigurationError, match="needs a terminal"):
            start.top(url, None)


def test_without_textual_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anybody is asked."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ehkafka\[top\]'"):
        start.top("127.0.0.1:1", None)
