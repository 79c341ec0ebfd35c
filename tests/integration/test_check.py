"""`ehkafka check` against a broker with the doors of Event Hubs: PLAIN and OAUTHBEARER over TLS."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

import ehkafka
from ehkafka.checks.result import Report, Status
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target
from ehkafka.cli.commands import cli
from ehkafka.embedded.topics import produce
from tests.kit.brokers import KEY, WRONG_KEY, connection_string, server_identity
from tests.kit.unsecured_token import unsecured_token

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ehkafka.checks.result import CheckResult
    from ehkafka.testing.kafka.broker import KafkaBroker

pytestmark = pytest.mark.broker

TOPIC, GROUP = "orders", "shop"
# Long enough for a busy machine; failures that wait for it are few.
TIMEOUT_S = 4.0


@pytest.fixture(scope="module")
def guarded(kafka: KafkaBroker) -> KafkaBroker:
    """Return the shared broker with a topic whose records it stamps itself."""
    kafka.create_topic(TOPIC, 4, {"message.timestamp.type": "LogAppendTime"})
    produce(kafka.bootstrap, TOPIC, [(b"k%d" % number, b"v") for number in range(40)])
    return kafka


@pytest.fixture
def authority(tmp_path: Path) -> str:
    """Return the file with the broker's certificate authority."""
    file = tmp_path / "ca.pem"
    file.write_bytes(server_identity().ca_pem)
    return str(file)


@pytest.fixture
def check(
    guarded: KafkaBroker, authority: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Return what runs the command with a connection string from the environment; it ends within bounds."""

    def run(*arguments: str, key: str = KEY, **properties: str) -> tuple[int, str]:
        chosen = {
            "BOOTSTRAP_SERVERS": guarded.bootstrap_for("event_hubs"),
            "SSL_CA_LOCATION": authority,
            **properties,
        }
        monkeypatch.setenv("EHKAFKA_CONNECTION_STRING", connection_string(key))
        for name, value in chosen.items():
            monkeypatch.setenv(f"EHKAFKA_PROPERTY_{name}", value)
        named = [] if "--topic" in arguments else ["--topic", TOPIC]
        asked = ["check", *named, "--group", GROUP, "--timeout", str(TIMEOUT_S), *arguments]
        began_s = time.monotonic()
        ended = CliRunner().invoke(cli, asked)
        assert time.monotonic() - began_s < 8 * TIMEOUT_S
        assert key not in ended.output
        assert connection_string(key) not in ended.output
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
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        committed = [TopicPartition(TOPIC, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=committed, asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("arguments", "options", "step", "words"),
    [
        pytest.param((), {"key": WRONG_KEY}, "auth", ["PLAIN was refused", "key not rotated"], id="key"),
        pytest.param(
            ("--topic", "order"),
            {},
            "topic",
            ["the broker has no such topic", "Did you mean 'orders'?"],
            id="topic",
        ),
        pytest.param(
            (),
            {"BOOTSTRAP_SERVERS": "plain"},
            "tls",
            ["speaks Kafka in plain text, but security.protocol is SASL_SSL"],
            id="plain text",
        ),
    ],
)
def test_what_is_wrong_is_said_at_its_step(
    guarded: KafkaBroker, check: Callable[..., tuple[int, str]],
    arguments: tuple[str, ...], options: dict[str, str], step: str, words: list[str],
) -> None:  # fmt: skip
    """With the probable cause; and never the key."""
    known = {"plain": guarded.bootstrap}
    code, output = check(*arguments, **{name: known.get(text, text) for name, text in options.items()})
    assert code == 3
    (line,) = marked(output, "✗")
    assert line.startswith(f"✗ {step}")
    assert [text for text in words if text not in line] == []


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
