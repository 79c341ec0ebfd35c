from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.keys import rotation as credential_rotation
from ehkafka.endpoint.keys.watch import CredentialWatch
from ehkafka.endpoint.properties.layers import consumer_properties, producer_properties
from ehkafka.errors import ConfigurationError
from tests.kit.waiting import wait_until

Hidden = Callable[..., None]
OTHER_KEY = "QmFzZTY0QmFzZTY0QmFzZTY0QmFzZTY0QmFzZTY0QmE="


class Vault:
    """A callable whose answer a test chooses: a text, or an exception to raise."""

    def __init__(self, answer: str | BaseException) -> None:
        self.answer = answer
        self.reads = 0

    def __call__(self) -> str:
        """Answer."""
        self.reads += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def vault(connection_string: str) -> Vault:
    """Return a vault that holds the fake connection string."""
    return Vault(connection_string)


@pytest.fixture
def rotated(connection_string: str, key: str) -> str:
    """Return the same connection string with another policy and another key."""
    return connection_string.replace(key, OTHER_KEY).replace("RootManageSharedAccessKey", "second")


def test_a_rotated_key_is_what_the_next_client_gets(vault: Vault, rotated: str) -> None:
    """A consumer, a producer and other callers that ask for the login get the key as it is now."""
    endpoint = Endpoint.connection_string(vault)
    assert endpoint.credential is not None
    vault.answer = rotated
    asked = consumer_properties(endpoint, "group", {}, assignor="default", instance_id=None)
    assert asked["sasl.password"] == rotated
    assert producer_properties(endpoint, {})["sasl.password"] == rotated
    login = endpoint.credential.current()
    assert (login.username, login.password.reveal()) == ("$ConnectionString", rotated)


def test_an_endpoint_of_text_has_no_credential_to_follow(connection_string: str) -> None:
    """What cannot change costs nothing: no object, no thread, and librdkafka's own pace of connecting."""
    endpoint = Endpoint.connection_string(connection_string)
    assert endpoint.credential is None
    assert "reconnect.backoff.max.ms" not in endpoint.client_properties()


def test_a_client_that_was_refused_tries_again_soon(vault: Vault) -> None:
    """Librdkafka's 10 s between two attempts would eat all the time there is; the user's word counts."""
    assert Endpoint.connection_string(vault).client_properties()["reconnect.backoff.max.ms"] == 2_000
    slower = Endpoint.connection_string(vault, properties={"reconnect.backoff.max.ms": 5_000})
    assert slower.client_properties()["reconnect.backoff.max.ms"] == 5_000


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("unit-test", "other", "Endpoint changed"),
        (".net/", ".net:9094/", "Endpoint changed"),
        ("SharedAccessKeyName", "EntityPath=hub;SharedAccessKeyName", "EntityPath changed"),
        (
            "unit-test.servicebus.windows.net/",
            "localhost/;UseDevelopmentEmulator=true",
            "Endpoint and UseDevelopmentEmulator changed",
        ),
    ],
)
def test_a_rotation_cannot_move_the_endpoint(
    old: str, new: str, shown: str, vault: Vault, connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """Where the string leads to is fixed; another place is refused by name, and the old key stays."""
    endpoint = Endpoint.connection_string(vault)
    assert endpoint.credential is not None
    vault.answer = connection_string.replace(old, new, 1).replace(key, OTHER_KEY)
    with pytest.raises(ConfigurationError, match=f"{shown}.* the old access key stays in use") as caught:
        endpoint.credential.reload()
    assert_hidden(OTHER_KEY, caught.value)
    assert endpoint.client_properties()["sasl.password"] == connection_string
    assert endpoint.name == "unit-test.servicebus.windows.net"


@pytest.mark.parametrize("answer", [RuntimeError("{key}"), "", "Endpoint=sb://{key}"])
def test_a_failing_read_leaves_the_old_key(
    answer: str | Exception, vault: Vault, connection_string: str, key: str, assert_hidden: Hidden
) -> None:
    """What cannot be read is reported to who asked for it; a new client gets the last good key."""
    endpoint = Endpoint.connection_string(vault)
    assert endpoint.credential is not None
    vault.answer = answer.replace("{key}", key) if isinstance(answer, str) else RuntimeError(key)
    with pytest.raises(ConfigurationError, match=r"Vault") as caught:
        endpoint.credential.reload()
    assert_hidden(key, caught.value)
    assert endpoint.client_properties()["sasl.password"] == connection_string


def test_a_callable_that_hangs_holds_up_no_client_for_ever(
    vault: Vault, connection_string: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new client waits for a bounded time and goes on with the key read last."""
    monkeypatch.setattr(credential_rotation, "REFRESH_S", 0.05)
    release, entered = threading.Event(), threading.Event()
    first = True

    def fetch() -> str:
        nonlocal first
        if not first:
            entered.set()
            release.wait(30.0)
        first = False
        return connection_string

    endpoint = Endpoint.connection_string(fetch)
    try:
        assert endpoint.client_properties()["sasl.password"] == connection_string
        assert entered.is_set()
    finally:
        release.set()


def test_a_thread_that_reads_for_an_app_is_known_as_the_apps(connection_string: str) -> None:
    """A callable that stops the app must not wait for it: see `App.stop`."""
    readers: list[threading.Thread] = []

    def fetch() -> str:
        readers.append(threading.current_thread())
        return connection_string

    credential = Endpoint.connection_string(fetch).credential
    assert credential is not None
    credential.client_properties()
    watch = CredentialWatch(credential, lambda _event: None)
    watch.start(None)  # type: ignore[arg-type]
    watch.check_now()
    wait_until(lambda: len(readers) >= 3)
    watch.stop()
    assert [watch.owns(thread) for thread in readers] == [False, True, True]


def test_a_callable_is_never_called_by_two_at_a_time(connection_string: str) -> None:
    """Apps and producers share an endpoint; the user's code need not be thread-safe."""
    inside, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(4)

    def fetch() -> str:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.005)
        with lock:
            inside -= 1
        return connection_string

    credential = Endpoint.connection_string(fetch).credential
    assert credential is not None

    def reload() -> None:
        together.wait(10.0)
        credential.reload()

    threads = [threading.Thread(target=reload) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_no_view_of_a_rotating_endpoint_shows_its_key(
    vault: Vault, rotated: str, key: str, assert_hidden: Hidden
) -> None:
    """Neither the old nor the new key shows in a repr, a copy, the fields or a login."""
    endpoint = Endpoint.connection_string(vault)
    credential = endpoint.credential
    assert credential is not None
    login = credential.current()
    vault.answer = rotated
    credential.reload()
    for secret in (key, OTHER_KEY):
        assert_hidden(secret, endpoint, login, credential.current(), credential.connection_string)
        assert secret not in repr(credential) + repr(vars(credential)) + repr(credential.source)
    for thing in (endpoint, login, credential):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
    assert copy.deepcopy(endpoint) is endpoint
