from __future__ import annotations

import base64
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.keys.source import FILE_BYTES_MAX
from ehkafka.errors import ConfigurationError

Hidden = Callable[..., None]


def password(endpoint: Endpoint) -> str:
    """Return what a new client would send."""
    return str(endpoint.client_properties()["sasl.password"])


@pytest.mark.parametrize("form", ["{}", "{}\n", "\ufeff{}\r\n", '"{}"\n', "\n {} \n\n"])
def test_a_file_is_a_connection_string(form: str, connection_string: str, tmp_path: Path) -> None:
    """What a mount, an editor or a shell writes around the string does no harm."""
    path = tmp_path / "key"
    path.write_text(form.format(connection_string), encoding="utf-8")
    endpoint = Endpoint.connection_string(path)
    assert password(endpoint) == connection_string
    assert (endpoint.name, endpoint.kind) == ("unit-test.servicebus.windows.net", "event-hubs")


def test_a_callable_is_a_connection_string(connection_string: str) -> None:
    """The callable is asked at once, and again for each new client."""
    asked: list[int] = []

    def fetch() -> str:
        asked.append(1)
        return connection_string

    endpoint = Endpoint.connection_string(fetch)
    assert len(asked) == 1
    assert password(endpoint) == connection_string
    assert len(asked) == 2


def test_a_relative_path_stays_where_it_was(
    connection_string: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that changes its directory still finds its key, and its rotation."""
    (tmp_path / "key").write_text(connection_string)
    monkeypatch.chdir(tmp_path)
    endpoint = Endpoint.connection_string(Path("key"))
    monkeypatch.chdir("/")
    (tmp_path / "key").write_text(f"{connection_string};TransportType=Amqp")
    assert password(endpoint).endswith(";TransportType=Amqp")


def test_a_mount_that_moves_its_link_is_followed(connection_string: str, tmp_path: Path) -> None:
    """Kubernetes replaces a directory behind a link; the file's own path never changes."""
    for name, end in (("old", ""), ("new", ";TransportType=Amqp")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(connection_string + end)
    (tmp_path / "data").symlink_to("old")
    (tmp_path / "key").symlink_to("data/key")
    endpoint = Endpoint.connection_string(tmp_path / "key")
    (tmp_path / "following").symlink_to("new")
    (tmp_path / "following").replace(tmp_path / "data")
    assert password(endpoint).endswith(";TransportType=Amqp")


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, "it does not exist; check the path and the mount"),
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"{string}" + b" " * FILE_BYTES_MAX, f"it is larger than {FILE_BYTES_MAX} bytes"),
        (b"{string}\xff", "it is not UTF-8 text"),
        (b"\xff\xfe{string}", "it is not UTF-8 text"),
        (b"SharedAccessKey={key}", "Endpoint and SharedAccessKeyName are missing"),
        (b"EVENTHUB={string}\nMORE=1", "contains a space, a line break"),
    ],
)
def test_a_file_that_is_no_connection_string_is_named_without_its_text(
    content: bytes | None, shown: str, connection_string: str, key: str, tmp_path: Path, assert_hidden: Hidden
) -> None:
    """The path and what is wrong are reported when the endpoint is made; nothing of the file is."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(
            content.replace(b"{string}", connection_string.encode()).replace(b"{key}", key.encode())
        )
    with pytest.raises(ConfigurationError) as caught:
        Endpoint.connection_string(path)
    assert shown in str(caught.value)
    assert str(path) in str(caught.value)
    assert_hidden(key, caught.value)


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe would block and is empty the second time; a folder or an impossible path is reported as such."""
    os.mkfifo(tmp_path / "pipe")
    for path, shown in (
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        (tmp_path / "a\0b", "a character that no path has"),
        (tmp_path / "x" / "y", "does not exist"),
        (tmp_path / ("n" * 300), "too long"),
    ):
        with pytest.raises(ConfigurationError, match=shown):
            Endpoint.connection_string(path)


def test_a_refusing_system_is_reported_with_its_reason(
    connection_string: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the operating system says about a file that it does not open is part of the error."""
    path = tmp_path / "key"
    path.write_text(connection_string)

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ConfigurationError, match="Permission denied; check its owner and mode"):
        Endpoint.connection_string(path)


@settings(deadline=None)
@given(
    random=st.binary(min_size=32, max_size=32),
    cut=st.integers(0, 120),
    end=st.booleans(),
    whole=st.booleans(),
)
def test_a_connection_string_given_as_path_is_not_repeated(
    random: bytes, cut: int, end: bool, whole: bool, connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """A path is shown in errors, so no connection string, nor a piece of one, becomes one."""
    drawn = base64.b64encode(random).decode()
    text = connection_string.replace(key, drawn) if whole else drawn
    text = text[cut % len(text) :] if end else text
    with pytest.raises(ConfigurationError, match="give the string as text") as caught:
        Endpoint.connection_string(Path(text))
    assert_hidden(drawn, caught.value)


def test_a_path_with_an_equals_sign_is_a_path_where_it_leads_to_a_file(
    connection_string: str, tmp_path: Path
) -> None:
    """Some name their folders `env=prod`."""
    path = tmp_path / "env=prod" / "key"
    path.parent.mkdir()
    path.write_text(connection_string)
    assert password(Endpoint.connection_string(path)) == connection_string
    path.write_text("")
    with pytest.raises(ConfigurationError, match="env=prod/key: it is empty"):
        Endpoint.connection_string(path)


def test_a_callables_failure_shows_where_and_not_what(
    connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """The class and the place of its exception are reported; its text and itself are left out."""

    def ask_vault() -> str:
        raise LookupError(f"no such secret: {connection_string}")

    def fetch() -> str:
        return ask_vault()

    with pytest.raises(
        ConfigurationError, match=r"builtins\.LookupError at .*test_credential_source\.py:\d+"
    ) as e:
        Endpoint.connection_string(fetch)
    assert e.value.__cause__ is None
    assert e.value.__context__ is None
    assert_hidden(key, e.value)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (None, "it returned NoneType, not text"),
        (b"Endpoint=sb://x", "it returned bytes, not text"),
        ("", "it is empty"),
        ("Endpoint=sb://ns.example.test", "SharedAccessKeyName and SharedAccessKey are missing"),
    ],
)
def test_a_callables_bad_answer_is_reported_by_its_name(answer: object, shown: str) -> None:
    """The callable is named, so that its owner knows which of several."""

    def fetch_from_vault() -> Any:
        return answer

    with pytest.raises(ConfigurationError, match=shown) as caught:
        Endpoint.connection_string(fetch_from_vault)
    assert "fetch_from_vault" in str(caught.value)


def test_an_async_callable_is_refused_with_the_next_step(connection_string: str) -> None:
    """It would return a coroutine that is never awaited; a hidden one is closed without a warning."""

    async def fetch() -> str:
        return connection_string

    with pytest.raises(ConfigurationError, match=r"it is async: give a plain function"):
        Endpoint.connection_string(fetch)  # type: ignore[arg-type]

    def fetch_later() -> object:
        return fetch()

    with pytest.raises(ConfigurationError, match="it returned coroutine, not text"):
        Endpoint.connection_string(fetch_later)  # type: ignore[arg-type]


def test_every_kind_of_callable_will_do(connection_string: str, key: str, assert_hidden: Hidden) -> None:
    """A partial, a method or an object with `__call__` has a name too, and its arguments are not shown."""

    class Vault:
        def __call__(self) -> str:
            return connection_string

        read = __call__

    for call in (functools.partial(str, connection_string), Vault(), Vault().read):
        endpoint = Endpoint.connection_string(call)
        assert password(endpoint) == connection_string
        assert endpoint.credential is not None
        assert_hidden(key, endpoint.credential.source.name)


@pytest.mark.parametrize("value", [None, 5, b"Endpoint=sb://x"])
def test_what_is_neither_text_path_nor_callable_is_refused(value: Any) -> None:
    """An unset variable passed on as None is reported as such."""
    with pytest.raises(ConfigurationError, match=type(value).__name__):
        Endpoint.connection_string(value)
