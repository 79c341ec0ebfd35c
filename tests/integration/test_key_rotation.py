from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING, Any

import pytest

import ehkafka
from ehkafka.events import ClientLogged, ConnectionProblem, CredentialRotated, CredentialUnusable
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.brokers import running
from tests.kit.events import Events
from tests.kit.server_identity import issue_identity
from tests.kit.unstolen import unstolen_s
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.broker

IDENTITY = issue_identity()
OLD_KEY = "b2xkIG9sZCBvbGQgb2xkIG9sZCBvbGQgb2xkIG9sZCE="
NEW_KEY = "bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3bmV3="
REAUTHENTICATE_S = 2.0
BACK_S = 10.0
RECORDS = 300
LISTENER = "event_hubs"


def secret(key: str) -> str:
    """Return a namespace-level connection string."""
    name = "Endpoint=sb://here.servicebus.windows.net/;SharedAccessKeyName=app"
    return f"{name};SharedAccessKey={key}"


class GuardedBroker(KafkaBroker):
    """A broker with a way in as Event Hubs has one, that takes one key and asks for it again and again."""

    def __init__(self, key: str) -> None:
        self.key = key
        listener = Listener(
            users={"$ConnectionString": secret(key)}, identity=IDENTITY, reauthenticate_s=REAUTHENTICATE_S
        )
        super().__init__(listeners={LISTENER: listener})

    def keys(self) -> tuple[str, str]:
        """Return the key that it takes, and the other one."""
        return (self.key, OLD_KEY if self.key == NEW_KEY else NEW_KEY)

    def accept_only(self, key: str) -> None:
        """Take this key from now on and no other. Apache Kafka reads its users at its start."""
        self.key = key
        users = {"$ConnectionString": secret(key)}
        self.listeners[LISTENER] = dataclasses.replace(self.listeners[LISTENER], users=users)
        self.kill()  # a graceful stop waits for its clients
        self.restart()


class Noted(Events):
    """A hook that keeps what it hears."""

    def refusals(self) -> list[ConnectionProblem]:
        """Return how often the broker has refused the key."""
        return [event for event in self.of(ConnectionProblem) if event.code == "_AUTHENTICATION"]

    def authentications(self) -> list[ClientLogged]:
        """Return how often the broker has taken it, by what the client logs while it is asked to."""
        return [event for event in self.of(ClientLogged) if "Received session lifetime" in event.text]


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedBroker]:
    """Run such a broker for the module."""
    with running(GuardedBroker(OLD_KEY)) as broker:
        yield broker


class Subject:
    """An app on a topic of its own whose connection string comes from a file or a callable."""

    def __init__(self, stage: Any, value: Any, authority: Path) -> None:
        self.stage = stage
        self.events = Noted()
        moved = {
            "bootstrap.servers": stage.broker.bootstrap_for(LISTENER),
            "ssl.ca.location": str(authority),
        }
        self.endpoint = ehkafka.Endpoint.connection_string(value, properties=moved)
        # The client then tells of each authentication, and would tell of a key if it ever reported one.
        # With a session shorter than the broker's restart the group would be formed anew, which takes one.
        debug = {"debug": "security", "log_level": 7, "session.timeout.ms": 30_000}
        self.app = stage.app(endpoint=self.endpoint, consumer=debug)
        self.app.add_hook(self.events)
        self.load = stage.load()

    def work(self) -> float:
        """Have another lot of records handled; return how long it took."""
        began_s = unstolen_s()
        self.load.produce(RECORDS)
        self.stage.wait_until_worked_off(self.load, 60.0)
        return unstolen_s() - began_s

    def shown(self) -> list[str]:
        """Return all that the app shows of itself."""
        credential = self.endpoint.credential
        assert credential is not None
        app = self.app
        things = (self.events, self.endpoint, credential, credential.current(), vars(credential))
        return [*map(repr, things), repr(app.snapshot()), repr(app.health()), repr(app.settings)]


def test_a_rotated_key_is_taken_up_from_a_file_and_from_a_callable_without_a_restart(
    guarded: GuardedBroker, stage_on: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Early or late, a new key is sent when the broker asks to authenticate again; back ≤ 10 s."""
    caplog.set_level(logging.DEBUG, "ehkafka")
    old, new = guarded.keys()
    authority, path = tmp_path / "ca.pem", tmp_path / "key"
    authority.write_bytes(IDENTITY.ca_pem)
    path.write_text(secret(old) + "\n")
    answers = [secret(old)]

    def fetch() -> str:
        if not answers:
            raise RuntimeError(secret(new))
        return answers[0]

    early, late = (Subject(stage_on(guarded, 4), value, authority) for value in (path, fetch))
    for subject in (early, late):
        subject.app.start()
        subject.work()

    # The file has the new key before the broker knows it: that the broker refuses it now shows that it was
    # sent on connections that stood, because the broker asked to authenticate again.
    following = tmp_path / "following"
    following.write_text(secret(new) + "\n")
    following.replace(path)
    wait_until(early.events.refusals, "a refusal of the new key", 10.0)
    assert not late.events.refusals()

    answers.clear()
    guarded.accept_only(new)
    assert early.work() < BACK_S

    # The callable has failed since, and now has the new key: later than the broker wants it.
    wait_until(late.events.refusals, "a refusal of the old key", 20.0)
    wait_until(lambda: late.events.of(CredentialUnusable), "word of the callable's failure", 10.0)
    answers.append(secret(new))
    assert late.work() < BACK_S

    refused, seen = len(early.events.refusals()), len(early.events.authentications())
    wait_until(lambda: len(early.events.authentications()) > seen + 1, "re-authentications", 20.0)
    assert len(early.events.refusals()) == refused, "the new key goes on being taken"
    for subject in (early, late):
        subject.stage.wait_until_committed(subject.load.ends)
        assert subject.app.state == "running"
        assert len(subject.events.of(CredentialRotated)) == 1

    assert_hidden([caplog.text, *map(repr, map(vars, caplog.records)), *early.shown(), *late.shown()])
    assert_hidden([file.read_text() for file in tmp_path.rglob("*") if file.is_file() and file != path])
    for subject in (early, late):
        subject.app.stop()
        subject.stage.judged()


def test_an_idle_app_that_never_committed_is_healthy_soon_after_a_rotation(
    guarded: GuardedBroker, stage_on: Callable[..., Any], tmp_path: Path
) -> None:
    """No record comes and there is no commit to send again: the connection that came up is the sign."""
    old, new = guarded.keys()
    authority, path = tmp_path / "ca.pem", tmp_path / "key"
    authority.write_bytes(IDENTITY.ca_pem)
    path.write_text(secret(old))
    subject = Subject(stage_on(guarded, 4), path, authority)
    subject.app.start()
    wait_until(lambda: len(subject.app.snapshot().partitions) == 4, "the group", 30.0)
    guarded.accept_only(new)
    wait_until(subject.events.refusals, "a refusal of the old key", 20.0)
    assert "did not accept the credential" in str(subject.app.health().reasons)
    path.write_text(secret(new))
    wait_until(lambda: subject.events.of(CredentialRotated), "the new key", 10.0)
    refused = len(subject.events.refusals())
    # librdkafka may be refused once more, and waits up to 10 s between two tries.
    wait_until(lambda: subject.app.health().ok, "health", 14.0)
    assert len(subject.events.refusals()) <= refused + 1
    assert subject.app.snapshot().finished_records == 0
    subject.app.stop()


def assert_hidden(shown: Iterable[str]) -> None:
    """Fail if eight characters in a row of a key are shown."""
    text = "\n".join(shown)
    for key in (OLD_KEY, NEW_KEY):
        assert not [start for start in range(len(key) - 8) if key[start : start + 8] in text]
