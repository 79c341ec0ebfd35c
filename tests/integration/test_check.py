"""`ehkafka check` against a broker with the doors of Event Hubs: PLAIN and OAUTHBEARER over TLS."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

import ehkafka
from ehkafka.checks import Report, Status, Target, run_checks
from ehkafka.cli.commands import cli
from ehkafka.embedded.topics import produce
from ehkafka.errors import EhkafkaError
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.kit.server_identity import issue_identity
from tests.kit.unsecured_token import unsecured_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ehkafka.checks import CheckResult

pytestmark = pytest.mark.broker

IDENTITY = issue_identity()
RIGHT_KEY = "cmlnaHQtcmlnaHQtcmlnaHQtcmlnaHQ="
WRONG_KEY = "d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc="
TOPIC, GROUP = "orders", "shop"
# Long enough for a busy machine; failures that wait for it are few.
TIMEOUT_S = 4.0


def secret(key: str) -> str:
    """Return a namespace-level connection string."""
    name = "Endpoint=sb://here.servicebus.windows.net/;SharedAccessKeyName=app"
    return f"{name};SharedAccessKey={key}"


@pytest.fixture(scope="module")
def guarded(without_broker: Callable[[EhkafkaError], NoReturn]) -> Iterator[KafkaBroker]:
    """Run a broker with both doors, that obeys ACLs where there are some, and stamps records itself."""
    broker = KafkaBroker(
        listeners={
            "event_hubs": Listener(users={"$ConnectionString": secret(RIGHT_KEY)}, identity=IDENTITY),
            "entra": Listener(unsecured_tokens=True, identity=IDENTITY),
        },
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
            "log.message.timestamp.type": "LogAppendTime",
        },
    )
    try:
        broker.start()
    except EhkafkaError as error:
        without_broker(error)
    broker.create_topic(TOPIC, 4)
    produce(broker.bootstrap, TOPIC, [(b"k%d" % number, b"v") for number in range(40)])
    yield broker
    broker.stop()


@pytest.fixture
def authority(tmp_path: Path) -> str:
    """Return the file with the broker's certificate authority."""
    file = tmp_path / "ca.pem"
    file.write_bytes(IDENTITY.ca_pem)
    return str(file)


@pytest.fixture
def check(
    guarded: KafkaBroker, authority: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Return what runs the command with a connection string from the environment; it ends within bounds."""

    def run(*arguments: str, key: str = RIGHT_KEY, **properties: str) -> tuple[int, str]:
        chosen = {
            "BOOTSTRAP_SERVERS": guarded.bootstrap_for("event_hubs"),
            "SSL_CA_LOCATION": authority,
            **properties,
        }
        monkeypatch.setenv("EHKAFKA_CONNECTION_STRING", secret(key))
        for name, value in chosen.items():
            monkeypatch.setenv(f"EHKAFKA_PROPERTY_{name}", value)
        named = [] if "--topic" in arguments else ["--topic", TOPIC]
        asked = ["check", *named, "--group", GROUP, "--timeout", str(TIMEOUT_S), *arguments]
        began_s = time.monotonic()
        ended = CliRunner().invoke(cli, asked)
        assert time.monotonic() - began_s < 8 * TIMEOUT_S
        assert key not in ended.output
        assert secret(key) not in ended.output
        return ended.exit_code, ended.output

    return run


def marked(output: str, mark: str) -> list[str]:
    """Return the lines with this mark."""
    return [line for line in output.splitlines() if line.startswith(mark)]


def test_every_step_is_well(guarded: KafkaBroker, check: Callable[..., tuple[int, str]]) -> None:
    """All steps pass over SASL PLAIN and TLS, the certificate, the lag and the clock are reported."""
    guarded_commit(guarded, {0: 1})
    code, output = check()
    assert code == 0
    assert not marked(output, "✗")
    assert not marked(output, "–"), "every step could be measured here"
    for part in ("TLSv1.3", "PLAIN accepted", "4, each with a leader", "commits on 1 of 4", "lag", "intact"):
        assert part in output


def guarded_commit(broker: KafkaBroker, offsets: dict[int, int]) -> None:
    """Commit for the group as one of its consumers would have."""
    from confluent_kafka import Consumer  # noqa: PLC0415 - a plain client, for this alone

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        committed = [TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=committed, asynchronous=False)
    finally:
        consumer.close()


def test_the_groups_own_commits_stay_as_they_are(
    guarded: KafkaBroker, check: Callable[..., tuple[int, str]]
) -> None:
    """The check commits in a group of its own name alone."""
    guarded_commit(guarded, {0: 2, 3: 1})
    before = guarded.committed(GROUP, TOPIC)
    assert check()[0] == 0
    assert guarded.committed(GROUP, TOPIC) == before
    assert 0 in guarded.committed("ehkafka-check", TOPIC).values()


def test_a_wrong_key(check: Callable[..., tuple[int, str]]) -> None:
    """The credential is refused: said at its step, with what a key may be wrong about, and never the key."""
    code, output = check(key=WRONG_KEY)
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith("✗ auth")
    assert "PLAIN was refused" in line
    assert "key not rotated" in line
    assert "needs auth" in "".join(marked(output, "– topic"))


def test_a_wrong_topic(check: Callable[..., tuple[int, str]]) -> None:
    """A misspelt topic is answered with the one that was meant."""
    code, output = check("--topic", "order")
    assert code == 3
    (line,) = marked(output, "✗")
    assert "there is no such topic" in line
    assert "Did you mean 'orders'?" in line


def test_a_port_where_nobody_listens(check: Callable[..., tuple[int, str]]) -> None:
    """A refused connection names the port and the usual ones."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        code, output = check(BOOTSTRAP_SERVERS=f"127.0.0.1:{bound.getsockname()[1]}")
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith("✗ tcp")
    assert "nobody listens" in line
    assert "9093" in line


def test_a_plain_text_port(guarded: KafkaBroker, check: Callable[..., tuple[int, str]]) -> None:
    """The right protocol on the wrong port: Kafka in plain text, where TLS was to be."""
    code, output = check(BOOTSTRAP_SERVERS=guarded.bootstrap)
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith("✗ tls")
    assert "speaks Kafka in plain text, but security.protocol is SASL_SSL" in line


def test_an_unknown_authority(check: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    """Another authority's certificate: said with the file that was trusted."""
    other = tmp_path / "other.pem"
    other.write_bytes(issue_identity().ca_pem)
    code, output = check(SSL_CA_LOCATION=str(other))
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith("✗ tls")
    assert str(other) in line
    assert "ssl.ca.location" in line


def test_a_group_that_the_credential_may_not_use(
    guarded: KafkaBroker, check: Callable[..., tuple[int, str]]
) -> None:
    """Rights on the topic but not on the group: only that step fails, and says which right is missing."""
    admin = AdminClient({"bootstrap.servers": guarded.bootstrap, "log_level": 0})
    denied = AclBinding(
        ResourceType.GROUP, GROUP, ResourcePatternType.LITERAL, "User:$ConnectionString", "*",
        AclOperation.ALL, AclPermissionType.DENY,
    )  # fmt: skip
    for future in admin.create_acls([denied]).values():
        future.result(10.0)
    try:
        code, output = check()
    finally:
        for future in admin.delete_acls([denied_filter(denied)]).values():
            future.result(10.0)
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith("✗ group")
    assert "GROUP_AUTHORIZATION_FAILED" in line
    assert "Data Receiver" in line


def denied_filter(binding: AclBinding) -> Any:
    """Return what finds the binding again."""
    from confluent_kafka.admin import AclBindingFilter  # noqa: PLC0415 - used here alone

    return AclBindingFilter(
        binding.restype, binding.name, binding.resource_pattern_type, binding.principal, binding.host,
        binding.operation, binding.permission_type,
    )  # fmt: skip


def by_token(guarded: KafkaBroker, authority: str, life_s: float, reported_s: float) -> Report:
    """Check with a token that lives so long, while the client hears of another life."""

    def fetch(_config: str) -> tuple[str, float]:
        return unsecured_token("app", life_s), time.time() + reported_s

    endpoint = ehkafka.Endpoint.kafka(
        guarded.bootstrap_for("entra"),
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "oauth_cb": fetch,
            "ssl.ca.location": authority,
        },
    )
    return run_checks(Target(endpoint=endpoint, group=GROUP, topics=(TOPIC,)), timeout_s=TIMEOUT_S)


def failures(report: Report) -> list[CheckResult]:
    """Return what failed."""
    return [result for result in report.results if result.status is Status.FAILED]


def test_a_good_token(guarded: KafkaBroker, authority: str) -> None:
    """OAUTHBEARER passes, and the token is a step of its own; nothing of it is repeated."""
    report = by_token(guarded, authority, 300.0, 300.0)
    assert report.exit_code == 0, failures(report)
    assert "token" in {result.name for result in report.results}
    assert "eyJ" not in orjson.dumps(report.as_dict()).decode()


@pytest.mark.parametrize("reported_s", [300.0, -5.0])
def test_an_expired_token(guarded: KafkaBroker, authority: str, reported_s: float) -> None:
    """It is found before a client is opened, whether the callback tells of it or hides it."""
    report = by_token(guarded, authority, -5.0, reported_s)
    assert report.exit_code == 3
    (failed,) = failures(report)
    assert failed.name == "token"
    assert "expired" in failed.text
    assert "clock" in (failed.fix or "")
    (auth,) = [result for result in report.results if result.name == "auth"]
    assert auth.text == "needs token"


def test_the_machine_form(check: Callable[..., tuple[int, str]]) -> None:
    """--json has every step with status, text, fix and the facts behind the text."""
    code, output = check("--json")
    assert code == 0
    found = orjson.loads(output)
    assert found["ok"]
    by_name = {step["name"]: step for step in found["checks"]}
    assert by_name["tls"]["facts"]["verified"]
    assert by_name["offsets"]["facts"]["offsets"] == 40
    assert by_name["commit"]["facts"]["metadata_intact"]
    assert by_name["clock"]["facts"]["newest_stamp_age_s"] < 3600
