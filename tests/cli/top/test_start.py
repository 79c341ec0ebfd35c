"""What `ehkafka top` asks, of whom, and what it refuses before it takes the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.cli.door import Door
from ehkafka.cli.top import start
from ehkafka.errors import ConfigurationError, EndpointError, MissingExtraError
from tests.kit import http_states as states
from tests.kit.http_double import TOKEN, HttpDouble, served
from tests.kit.http_server import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.http_server import Answer, Request


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the machine's own variables away."""
    for name in ("EHKAFKA_HTTP_TOKEN", "EHKAFKA_HTTP_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


def test_the_token_goes_as_a_header_and_is_never_shown() -> None:
    """Not in the address, nor in the repr."""
    double = HttpDouble(states.healthy())
    double.is_closed = True
    with served(double) as url:
        door = Door(url, TOKEN, 5.0)
        assert door.ask("GET", "/state").is_ok
        assert double.authorizations == [f"Bearer {TOKEN}"]
        assert TOKEN not in repr(door) + door.url
        assert Door(url, None, 5.0).ask("GET", "/state").status == 401


def test_a_redirect_is_not_followed() -> None:
    """The token would go along to the server that is named."""
    asked = []

    def answer(request: Request) -> Answer:
        asked.append(request.path)
        return 302 if request.path == "/state" else 200, {"Location": "/caught"}, b"<html>"

    with serving(answer) as port, pytest.raises(EndpointError, match="not in JSON"):
        Door(f"http://127.0.0.1:{port}", TOKEN, 5.0).ask("GET", "/state")
    assert asked == ["/state"]


def test_what_is_wrong_is_said_before_the_terminal_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that is missing or wrong, an output that is no terminal, an address without a server."""
    double = HttpDouble(states.healthy())
    double.is_closed = True
    file = tmp_path / "token"
    with served(double) as url:
        with pytest.raises(ConfigurationError, match="requires the token"):
            start.top(url)
        monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", "x" * 20)
        with pytest.raises(ConfigurationError, match="refuses the token"):
            start.top(url)
        file.write_text(f"{TOKEN}\n")
        with pytest.raises(ConfigurationError, match="needs a terminal"):
            start.top(url, token_file=file)
    with pytest.raises(EndpointError, match="does not answer"):
        start.top(url, token_file=file)


def test_without_textual_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any server is asked."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*'textual<"):
        start.top("127.0.0.1:1")


@pytest.mark.parametrize(
    ("where", "is_app"),
    [
        ("shop.orders:app", True),
        ("shop/orders.py", True),
        ("shop/orders.py:app", True),
        ("127.0.0.1:8080", False),
        ("http://h:1/ops", False),
        ("https://[::1]:8080", False),
        ("[::1]:8080", False),
        ("broker", False),
    ],
)
def test_an_app_and_an_address_are_kept_apart(
    where: str, is_app: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name behind its colon, or the file's ending; a port is no name."""
    asked: list[str] = []

    def note(one: str, *_: Any) -> Any:
        asked.append(one)
        raise ConfigurationError("enough")

    monkeypatch.setattr(start, "_loaded" if is_app else "Door", note)
    with pytest.raises(ConfigurationError, match="enough"):
        start.top(where)
    assert asked == [where]


APP = """
import ehkafka
from ehkafka.http import Http

app = ehkafka.App(group="g", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="earliest", http={http})

@app.handler("t")
def handle(record): ...
"""


def test_an_app_that_serves_is_asked_there_by_its_own_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At this machine's address where it serves all; a token that is given counts instead of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "its_token").write_text("its-token-of-24-characters")
    (tmp_path / "other_token").write_text("another-of-24-characters")
    double = HttpDouble(states.healthy())
    with served(double) as url:
        port = url.rpartition(":")[2]
        http = f'Http(address="0.0.0.0:{port}", token_file={str(tmp_path / "its_token")!r})'
        (tmp_path / "served_app.py").write_text(APP.format(http=http))
        for token_file in (None, tmp_path / "other_token"):
            with pytest.raises(ConfigurationError, match="needs a terminal"):
                start.top("served_app:app", token_file=token_file)
    assert double.authorizations == ["Bearer its-token-of-24-characters", "Bearer another-of-24-characters"]
    with pytest.raises(EndpointError, match=r"does not answer.* ehkafka run served_app:app"):
        start.top("served_app:app")


def test_an_app_is_not_started_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would join its group and consume without a screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "unserved_app.py").write_text(APP.format(http=None))
    monkeypatch.setattr("ehkafka.App.run", lambda *_, **_more: pytest.fail("it was started"))
    with pytest.raises(ConfigurationError, match="needs a terminal"):
        start.top("unserved_app:app")
