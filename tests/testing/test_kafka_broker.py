from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from ehkafka.embedded.topics import produce
from ehkafka.errors import ConfigurationError, EndpointError
from ehkafka.testing.kafka import broker as kafka_module
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from ehkafka.testing.ports import free_ports
from tests.kit.brokers import running
from tests.kit.server_identity import issue_identity
from tests.kit.topic_read import read_messages
from tests.kit.unsecured_token import unsecured_token
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.broker

SECRET = 'Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=q"w\\e+r/t='
IDENTITY = issue_identity()
ELSEWHERE = issue_identity("elsewhere.example")
LISTENERS = {
    "event_hubs": Listener(users={"$ConnectionString": SECRET}, identity=IDENTITY),
    "passwords": Listener(users={"$ConnectionString": SECRET, "reader": "r"}),
    "tokens": Listener(unsecured_tokens=True),
    "elsewhere": Listener(identity=ELSEWHERE),
}
DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """Run one broker with a listener of every kind for the whole module."""
    with running(KafkaBroker(listeners=LISTENERS)) as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """Return a new topic with two partitions."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, 2)
    return name


def sasl(mechanism: str, **more: Any) -> dict[str, Any]:
    """Return a client's SASL settings without TLS."""
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, **more}


def password(user: str, value: str) -> dict[str, Any]:
    """Return a client's settings for SASL PLAIN."""
    return sasl("PLAIN", **{"sasl.username": user, "sasl.password": value})


def token(life_s: float) -> dict[str, Any]:
    """Return a client's settings for OAUTHBEARER."""
    return sasl("OAUTHBEARER", oauth_cb=lambda _: (unsecured_token("me", life_s), time.time() + 3600))


TRUSTING = {
    **password("$ConnectionString", SECRET),
    "security.protocol": "SASL_SSL",
    "ssl.ca.pem": IDENTITY.ca_pem.decode(),
}


def send(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> None:
    """Produce the values to partition 0."""
    quiet = {"log_level": 0, **settings}
    produce(bootstrap, topic, [(None, value) for value in values], partition=0, properties=quiet)


def sent(bootstrap: str, topic: str, **settings: Any) -> list[bytes]:
    """Return the values of a topic."""
    return [message.value() for message in read_messages(bootstrap, topic, **settings)]


@contextlib.contextmanager
def consuming(bootstrap: str, group: str = "g", **settings: Any) -> Iterator[Consumer]:
    """Open a consumer and close it, whatever happens."""
    own = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0, "enable.auto.commit": False}
    consumer = Consumer(own | settings)
    try:
        yield consumer
    finally:
        consumer.close()


def refusal(bootstrap: str, **settings: Any) -> int | None:
    """Return the code of the first fatal connection error that a client reports, `None` without one."""
    codes: list[int] = []
    own: dict[str, Any] = {"error_cb": lambda error: codes.append(error.code())}
    with consuming(bootstrap, **own, **settings) as consumer:
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            with contextlib.suppress(KafkaException):
                consumer.list_topics(timeout=0.2)
                return None
            consumer.poll(0.05)
            wanted = [code for code in codes if code in (KafkaError._AUTHENTICATION, KafkaError._SSL)]
            if wanted:
                return wanted[0]
    return None


@pytest.mark.parametrize(
    ("listener", "settings"),
    [
        ("plaintext", {}),
        ("event_hubs", TRUSTING),
        ("passwords", password("$ConnectionString", SECRET)),
        ("passwords", password("reader", "r")),
        ("tokens", token(life_s=60)),
    ],
    ids=["plaintext", "sasl-ssl", "connection-string", "second-user", "token"],
)
def test_records_come_back_over_every_listener(
    broker: KafkaBroker, topic: str, listener: str, settings: dict[str, Any]
) -> None:
    """What a client writes over a listener it reads over the same one."""
    values = [b"%d" % number for number in range(20)]
    bootstrap = broker.bootstrap_for(listener)
    send(bootstrap, topic, values, **settings)
    assert sent(bootstrap, topic, **settings) == values


@pytest.mark.parametrize(
    ("listener", "settings", "code"),
    [
        ("passwords", password("$ConnectionString", "wrong"), KafkaError._AUTHENTICATION),
        ("passwords", password("stranger", "r"), KafkaError._AUTHENTICATION),
        ("tokens", token(life_s=-60), KafkaError._AUTHENTICATION),
        ("event_hubs", {**TRUSTING, "ssl.ca.pem": issue_identity().ca_pem.decode()}, KafkaError._SSL),
    ],
    ids=["wrong-password", "unknown-user", "expired-token", "foreign-ca"],
)
def test_a_client_that_proves_nothing_is_refused(
    broker: KafkaBroker, listener: str, settings: dict[str, Any], code: int
) -> None:
    """Authentication and TLS are checked, not just spoken."""
    assert refusal(broker.bootstrap_for(listener), **settings) == code


def test_a_certificate_for_another_host_is_refused(broker: KafkaBroker) -> None:
    """The client's check of the host name is on; without it the same certificate would do."""
    trusting = {"security.protocol": "SSL", "ssl.ca.pem": ELSEWHERE.ca_pem.decode()}
    careless = {**trusting, "ssl.endpoint.identification.algorithm": "none"}
    assert refusal(broker.bootstrap_for("elsewhere"), **careless) is None
    assert refusal(broker.bootstrap_for("elsewhere"), **trusting) == KafkaError._SSL


def test_commit_metadata_is_limited_to_1024_bytes(broker: KafkaBroker, topic: str) -> None:
    """The broker refuses what Event Hubs documents; confluent-kafka sends one zero byte after ours."""
    with consuming(broker.bootstrap) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 0, 1, "x" * 1023)], asynchronous=False)
        with pytest.raises(KafkaException) as refused:
            consumer.commit(offsets=[TopicPartition(topic, 0, 2, "x" * 1024)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    assert broker.committed("g", topic)[0] == 1


def test_a_topic_can_be_deleted_made_again_and_grown(broker: KafkaBroker, topic: str) -> None:
    """Each call returns when its effect is there, so the next one needs no wait."""
    send(broker.bootstrap, topic, [b"old"])
    broker.delete_topic(topic)
    broker.create_topic(topic, 1, {"retention.ms": "60000"})
    broker.create_partitions(topic, 3)
    send(broker.bootstrap, topic, [b"new"])
    assert sent(broker.bootstrap, topic) == [b"new"]
    assert len(broker.committed("empty", topic)) == 3


def test_a_kill_and_restart_keep_data_ports_and_commits(broker: KafkaBroker, topic: str) -> None:
    """After a crash the broker is back where clients expect it, with what it had acknowledged."""
    send(broker.bootstrap, topic, [b"a", b"b"])
    broker.set_committed("steady", {(topic, 0): 1})
    before, pid = broker.bootstrap, broker.pid
    broker.kill()
    assert broker.pid is None
    broker.restart()
    assert broker.bootstrap == before
    assert broker.pid != pid
    assert sent(broker.bootstrap, topic) == [b"a", b"b"]
    assert broker.committed("steady", topic)[0] == 1


def test_no_other_user_can_read_the_brokers_files(broker: KafkaBroker) -> None:
    """Passwords and keys lie in files of the owner alone, and the log has none of them."""
    assert broker.directory.stat().st_mode & 0o077 == 0
    files = [path for path in broker.directory.iterdir() if path.is_file()]
    assert {path.name: path.stat().st_mode & 0o077 for path in files} == {path.name: 0 for path in files}
    assert "SharedAccessKey" not in (broker.directory / "kafka.log").read_text()


def test_a_killed_owner_leaves_no_broker_behind() -> None:
    """The broker and its files go when the process that started it is killed."""
    code = (
        "from ehkafka.testing.kafka.broker import KafkaBroker\n"
        "broker = KafkaBroker().start()\n"
        "print(broker.pid, broker.directory, flush=True)\n"
        "input()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True) as owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not Path(directory).exists())
    wait_until(lambda: not Path(f"/proc/{pid}").exists() or is_zombie(int(pid)))


def is_zombie(pid: int) -> bool:
    """Tell whether a process has ended and only waits for its new parent to notice."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_port_that_is_taken_first_is_replaced(broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Losing the race for a port costs one more start; a stop then leaves nothing of either."""
    taken = int(broker.bootstrap.rpartition(":")[2])
    answers = [[taken, *free_ports(1)]]
    monkeypatch.setattr(
        kafka_module, "free_ports", lambda count: answers.pop() if answers else free_ports(count)
    )
    second = KafkaBroker().start()
    pid, directory = second.pid, second.directory
    try:
        assert second.bootstrap != broker.bootstrap
        second.create_topic("t")
    finally:
        second.stop()
    second.stop()
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not directory.exists()


def test_a_broker_that_cannot_start_shows_its_log() -> None:
    """The error has the reason that Kafka gave, and nothing stays behind."""
    refused = KafkaBroker(properties={"inter.broker.listener.name": "NOWHERE"})
    with pytest.raises(EndpointError, match=r"NOWHERE"):
        refused.start()
    with pytest.raises(ConfigurationError, match="no directory"):
        _ = refused.directory


@pytest.mark.parametrize("name", ["plaintext", "controller", "Upper", "with-dash", ""])
def test_a_listener_name_that_kafka_would_confuse_is_refused(name: str) -> None:
    """Reserved and unusable names are refused before anything starts."""
    with pytest.raises(ConfigurationError, match="cannot name a listener"):
        KafkaBroker(listeners={name: Listener()})
