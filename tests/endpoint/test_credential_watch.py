from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.endpoint import Endpoint
from ehkafka.endpoint.keys import watch as credential_watch
from ehkafka.endpoint.keys.watch import HANGING_S, CredentialWatch
from ehkafka.events import CredentialRotated, CredentialUnusable, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.endpoint.keys.rotation import RotatingCredential

OTHER_KEY = "QmFzZTY0QmFzZTY0QmFzZTY0QmFzZTY0QmFzZTY0QmE="
TIMEOUT_S = 20.0


class Client:
    """Keeps the logins that it is given."""

    def __init__(self) -> None:
        self.logins: list[tuple[str, str]] = []

    def set_sasl_credentials(self, username: str, password: str, /) -> None:
        """Keep one."""
        self.logins.append((username, password))


class Noted:
    """Keeps events; `came` is set by each."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.came = threading.Event()

    def emit(self, event: Event) -> None:
        """Keep one."""
        self.events.append(event)
        self.came.set()


@pytest.fixture
def noted() -> Noted:
    """Return what the watch tells."""
    return Noted()


@pytest.fixture
def path(tmp_path: Path, connection_string: str) -> Path:
    """Return a file that holds the fake connection string."""
    file = tmp_path / "key"
    file.write_text(connection_string)
    return file


@pytest.fixture
def credential(path: Path) -> RotatingCredential:
    """Return the credential of that file."""
    found = Endpoint.connection_string(path).credential
    assert found is not None
    return found


@pytest.fixture
def watching() -> Iterator[Callable[..., CredentialWatch]]:
    """Return what makes a watch that is stopped after the test."""
    made: list[CredentialWatch] = []

    def make(*arguments: Any, **named: Any) -> CredentialWatch:
        made.append(CredentialWatch(*arguments, **named))
        return made[-1]

    yield make
    for watch in made:
        watch.stop()


def test_a_changed_key_reaches_the_client_on_its_own_thread(
    path: Path,
    credential: RotatingCredential,
    connection_string: str,
    key: str,
    noted: Noted,
    watching: Callable[..., CredentialWatch],
) -> None:
    """The watch's thread reads the file, and only `apply` touches the client, once for each change."""
    client, watch = Client(), watching(credential, noted.emit)
    watch.start(client)
    watch.apply()
    assert client.logins == []
    rotated = connection_string.replace(key, OTHER_KEY)
    before = credential.current()
    following = path.with_name("following")
    following.write_text(rotated)
    following.replace(path)  # a reader finds the old or the new one, never half of it
    watch.check_now()
    deadline = threading.Event()
    for _ in range(int(TIMEOUT_S / 0.01)):
        if credential.current() != before:
            break
        deadline.wait(0.01)
    assert client.logins == [], "the watch's thread must not touch the client"
    watch.apply()
    watch.apply()
    assert client.logins == [("$ConnectionString", rotated)]
    assert noted.events == [CredentialRotated(f"file {path}")]


def test_a_key_that_changed_between_making_and_opening_is_applied(
    path: Path, credential: RotatingCredential, connection_string: str, key: str, noted: Noted
) -> None:
    """A rotation while a client opens is not lost, whichever of the two keys the client got."""
    client, watch = Client(), CredentialWatch(credential, noted.emit)
    path.write_text(connection_string.replace(key, OTHER_KEY))
    credential.reload()
    watch.start(client)
    watch.apply()
    watch.stop()
    assert [password for _, password in client.logins] == [connection_string.replace(key, OTHER_KEY)]


def test_without_a_credential_there_is_no_thread(noted: Noted) -> None:
    """A connection string given as text costs nothing."""
    client, watch = Client(), CredentialWatch(None, noted.emit)
    before = threading.active_count()
    watch.start(client)
    watch.check_now()
    watch.apply()
    assert threading.active_count() == before
    watch.stop()
    assert (client.logins, noted.events) == ([], [])


def test_after_the_stop_the_client_is_left_alone(
    path: Path, credential: RotatingCredential, connection_string: str, key: str, noted: Noted
) -> None:
    """A closed client would end the process when it is given a login."""
    client, watch = Client(), CredentialWatch(credential, noted.emit)
    watch.start(client)
    watch.stop()
    path.write_text(connection_string.replace(key, OTHER_KEY))
    credential.reload()
    watch.apply()
    assert client.logins == []


def test_each_failing_read_is_reported(
    path: Path, credential: RotatingCredential, connection_string: str, noted: Noted
) -> None:
    """With its reason, and how many there were in a row; the log has each reason twice a minute."""
    watch = CredentialWatch(credential, noted.emit)
    for text in (None, None, "", connection_string, None):
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        watch.check(credential)
    assert [event.failures for event in unusable(noted)] == [1, 2, 3, 1]
    reasons = [event.reason for event in unusable(noted)]
    assert ["does not exist" in reasons[0], "it is empty" in reasons[2]] == [True, True]
    assert len({event.subject() for event in unusable(noted)}) == 2


@pytest.mark.parametrize("end", [RuntimeError, SystemExit, KeyboardInterrupt])
def test_whatever_a_callable_raises_the_watch_goes_on(
    end: type[BaseException],
    connection_string: str,
    key: str,
    noted: Noted,
    watching: Callable[..., CredentialWatch],
    assert_hidden: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A callable that calls sys.exit() on a thread of ours loses no rotation; its text is not known."""
    monkeypatch.setattr(credential_watch, "SPACING_S", 0.001)
    answers: list[str | BaseException] = [connection_string]

    def fetch() -> str:
        if isinstance(answers[-1], BaseException):
            raise answers[-1]
        return answers[-1]

    credential = Endpoint.connection_string(fetch).credential
    assert credential is not None
    watch = watching(credential, noted.emit)
    answers.append(end(connection_string))
    watch.start(Client())
    watch.check_now()
    assert noted.came.wait(TIMEOUT_S)
    assert end.__name__ in unusable(noted)[0].reason
    assert_hidden(key, *noted.events)
    answers.append(connection_string.replace(key, OTHER_KEY))
    noted.came.clear()
    for _ in range(int(TIMEOUT_S / 0.01)):
        watch.check_now()
        watch.apply()
        if noted.came.wait(0.01):
            break
    assert isinstance(noted.events[-1], CredentialRotated)


def test_a_read_that_hangs_is_reported_by_the_client_and_does_not_hold_up_a_stop(
    connection_string: str, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll thread never waits for a callable, and says when one does not return."""
    monkeypatch.setattr(credential_watch, "SPACING_S", 0.001)
    release, entered = threading.Event(), threading.Event()
    now_s = 0.0
    calls = 0

    def fetch() -> str:
        nonlocal calls
        calls += 1
        if calls > 1:
            entered.set()
            release.wait(TIMEOUT_S)
        return connection_string

    credential = Endpoint.connection_string(fetch).credential
    watch = CredentialWatch(credential, noted.emit, clock=lambda: now_s)
    try:
        watch.start(Client())
        watch.check_now()
        assert entered.wait(TIMEOUT_S)
        now_s = HANGING_S - 1
        watch.apply()
        assert (noted.events, watch.problem) == ([], None)
        now_s = HANGING_S
        watch.apply()
        watch.apply()
        assert [event.reason for event in unusable(noted)] == [
            "a read has not returned for 30 s, so a rotated access key is not noticed"
        ]
        assert "has not returned for 30 s" in str(watch.problem)
        watch.stop()
    finally:
        release.set()


def unusable(noted: Noted) -> list[CredentialUnusable]:
    """Return what was reported of failing reads."""
    return [event for event in noted.events if isinstance(event, CredentialUnusable)]


def test_problem_is_there_while_reads_fail(
    path: Path, credential: RotatingCredential, connection_string: str, noted: Noted
) -> None:
    """From the second failed read in a row on, for a file may be away while it is replaced."""
    watch = CredentialWatch(credential, noted.emit)
    path.unlink()
    watch.check(credential)
    assert watch.problem is None
    watch.check(credential)
    assert watch.problem is not None
    assert f"file {path}" in watch.problem
    assert "does not exist" in watch.problem
    path.write_text(connection_string)
    watch.check(credential)
    assert watch.problem is None
    assert CredentialWatch(None, noted.emit).problem is None
