"""Among dead letters a batch that cannot be read: what reads them ends at its place, and says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from ehkafka import Endpoint
from ehkafka.checks.target import Target
from ehkafka.cli.commands import cli
from ehkafka.errors import EndpointError
from ehkafka.redrive.order import RedriveCount
from ehkafka.redrive.redrive import Redrive
from tests.kit.broken_batches import broken_batch, good_batch, write_batch

if TYPE_CHECKING:
    from ehkafka.testing import EmbeddedBroker

QUICK = {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 100, "fetch.wait.max.ms": 20}


@pytest.fixture
def broker(embedded_broker_factory: Any) -> EmbeddedBroker:
    """Run a broker with a topic that has a record."""
    broker: EmbeddedBroker = embedded_broker_factory({"dead": 2})
    write_batch(broker, "dead", good_batch([b"1"]))
    return broker


def dlq(broker: EmbeddedBroker, *arguments: str) -> tuple[int, str]:
    """Run the command; return its exit code and stderr."""
    ended = CliRunner().invoke(cli, ["dlq", *arguments, "--endpoint", broker.bootstrap, "--timeout", "5"])
    return ended.exit_code, ended.stderr


def redrive_of(broker: EmbeddedBroker) -> Redrive:
    """Return a redrive whose group forms quickly."""
    target = Target(endpoint=Endpoint.kafka(broker.bootstrap), consumer=QUICK)
    return Redrive(target=target, topic="dead", timeout_s=5.0)


@pytest.mark.parametrize("what", ["checksum", "compression", "codec", "format"])
def test_lists_and_redrives_end_at_its_place(broker: EmbeddedBroker, what: str) -> None:
    """Whatever stands behind it; a letter before it can still be looked at."""
    write_batch(broker, "dead", broken_batch(what, 2))
    write_batch(broker, "dead", good_batch([b"2"]))
    code, said = dlq(broker, "list", "dead")
    assert (code, "dead[0]@1" in said) == (3, True)
    assert dlq(broker, "show", "dead", "0@0")[0] == 0
    redrive = redrive_of(broker)
    past = rf"dead\[0\]@1 .*offsets skip dead/0@1 --group {redrive.group_name}"
    with pytest.raises(EndpointError, match=past):
        redrive.plan()
    with pytest.raises(EndpointError, match=past):
        redrive.run(planned=RedriveCount())


def test_where_the_client_says_nothing_they_end_too(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a time in which any leader would have moved."""
    monkeypatch.setattr("ehkafka.checks.topic_reader._GROUP_PATIENCE_S", 0.5)
    monkeypatch.setattr("ehkafka.checks.topic_reader._PATIENCE", 0.1)
    write_batch(broker, "dead", broken_batch("length"))
    code, said = dlq(broker, "list", "dead")
    assert (code, "dead[0] arrived from offset 1" in said) == (3, True)
    with pytest.raises(EndpointError, match=r"No record of dead\[0\] arrived"):
        redrive_of(broker).run(planned=RedriveCount())
