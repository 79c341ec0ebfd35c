from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from ehkafka.errors import ConfigurationError, EhkafkaError, EndpointError
from ehkafka.testing.kafka import broker as kafka_module
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from ehkafka.testing.ports import free_ports
from tests.kit.server_identity import issue_identity
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.broker

SECRET = 'Endpoint=sb://n.servicebus.windows.net/;SharedAccessKeyName=a;SharedAccessKey=q"w\\e+r/t='
LISTENERS = {"event_hubs": Listener(users={"$ConnectionString": SECRET}, identity=issue_identity())}


@pytest.fixture(scope="module")
def broker(without_broker: Callable[[EhkafkaError], NoReturn]) -> Iterator[KafkaBroker]:
    """Run one broker, with a listener as Event Hubs has one, for the whole module."""
    running = KafkaBroker(listeners=LISTENERS)
    try:
        running.start()
    except EhkafkaError as error:
        without_broker(error)
    yield running
    running.stop()


def test_nobody_else_can_read_the_brokers_files(broker: KafkaBroker) -> None:
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


def test_a_port_that_somebody_takes_first_is_replaced(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_using_a_broker_that_is_not_there_says_so() -> None:
    """Address, outage and restart need a start first."""
    broker = KafkaBroker()
    for use in (lambda: broker.bootstrap, broker.kill, broker.suspend, broker.restart):
        with pytest.raises(ConfigurationError, match="start"):
            use()
