"""What members get in addition to their program: by a socket of their own, never by argument or variable."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ehkafka
from ehkafka.embedded.shared import Loan
from ehkafka.endpoint import Endpoint
from ehkafka.errors import ConfigurationError
from ehkafka.members.boot import boot_of, packed
from ehkafka.members.reference import Reference
from ehkafka.testing import EmbeddedBroker
from tests.members.conftest import LIMIT_S, SHOP

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "hunter2-b0c4"
HERE = Reference("shop", "app")
STRING = f"Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey={SECRET};UseDevelopmentEmulator=true"
TAKING = SHOP.replace('ehkafka.Endpoint.embedded({"orders": 4})', "None").replace(
    "stop_s=5", "stop_s=5, consumer={'session.timeout.ms': 1500, 'heartbeat.interval.ms': 100}"
)
SHOWING = """
    @app.on_start
    def show():
        print("PASSWORD", app.settings.consumer["sasl.password"] == "hunter2-b0c4", app.settings.stop_s)
"""
FILE = """
    [app]
    stop_s = 7

    [endpoint]
    bootstrap = "{bootstrap}"

    [consumer]
    "sasl.username" = "shop"
    "sasl.password" = "hunter2-b0c4"
    """


def test_a_settings_files_secrets_reach_members_unseen(
    tmp_path: Path, start: Callable, write: Callable[..., Path]
) -> None:
    """The broker, a setting and a password of the file are there, in no process's arguments or variables."""
    with EmbeddedBroker({"orders": 4}) as broker:
        write(FILE.format(bootstrap=broker.bootstrap), name="shop.toml").chmod(0o600)
        program = start("run", "shop", "--members", "2", "--config", "shop.toml", parts=(TAKING, SHOWING))
        members = program.wait_until_ready()
        program.wait_for_match(r"\[[12]\] PASSWORD True 7", 2, LIMIT_S)
        for pid in (program.process.pid, *members.values()):
            for name in ("cmdline", "environ"):
                assert SECRET.encode() not in Path(f"/proc/{pid}/{name}").read_bytes(), "FACT: it is seen"
        program.signal(signal.SIGTERM)
        assert program.end(LIMIT_S) == 0
        assert SECRET not in program.stdout + program.stderr


def test_a_member_holds_nothing_of_its_supervisor_or_of_others(start: Callable) -> None:
    """Of its descriptors one is a socket to the supervisor; no client's, no other member's."""
    program = start()
    members = program.wait_until_ready()
    ours = sockets(program.process.pid)
    first, second = (sockets(pid) for pid in members.values())
    assert not first & second
    assert not ours & (first | second)
    program.signal(signal.SIGTERM)
    program.end(LIMIT_S)


def sockets(pid: int) -> set[str]:
    """Return the sockets and pipes that a process has open; of a pair the ends have different names."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = str(entry.readlink())
        except OSError:
            continue
        if re.match(r"socket:", name):
            found.add(name)
    return found


def key() -> str:
    """Return a connection string, as a program's own function does."""
    return STRING


@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint.kafka("127.0.0.1:9092", {"sasl.username": "n", "sasl.password": SECRET}),
        Endpoint.connection_string(STRING),
        Endpoint.connection_string(key),
        Endpoint.entra("home", "cli", client_id=None),
        Endpoint.embedded({"orders": 3}, partitions=5),
        Endpoint.from_settings({"bootstrap": "127.0.0.1:9092"}, properties={"log_level": 0}),
    ],
    ids=lambda endpoint: endpoint.kind,
)
def test_an_endpoint_is_made_again_as_it_was(endpoint: Endpoint) -> None:
    """Whatever made it; and how it was made shows no secret."""
    again = Endpoint.made_again(endpoint.recipe)
    assert (again.kind, again.name, again.default_topic) == (
        endpoint.kind,
        endpoint.name,
        endpoint.default_topic,
    )
    assert SECRET not in repr(endpoint.recipe) + repr(endpoint)
    if endpoint.kind != "embedded" and endpoint.tokens is None:
        assert again.client_properties() == endpoint.client_properties()
    again.close()
    endpoint.close()


def boot(**laid: object) -> bytes:
    """Return a member's boot."""
    endpoint = laid.pop("endpoint", None)
    assert endpoint is None or isinstance(endpoint, Endpoint)
    made = boot_of(HERE, laid=(endpoint, laid), instance_id="a", registered=(), run={})
    return packed(made, 3, is_first=True)


def test_what_cannot_travel_is_refused_by_name() -> None:
    """A callable that no other process could import, and a credential; without what it holds."""
    with pytest.raises(ConfigurationError, match=r"Endpoint\.connection_string was given cannot be sent"):
        boot(endpoint=Endpoint.connection_string(lambda: STRING))
    with pytest.raises(ConfigurationError, match="the setting start cannot be sent") as caught:
        boot(start=lambda _topic, _partition: SECRET)
    assert SECRET not in str(caught.value)
    assert SECRET.encode() in boot(endpoint=Endpoint.connection_string(STRING))  # it does travel


def test_a_lent_broker_is_used_instead_of_an_own_one() -> None:
    """Its topics are there; others a member cannot make."""
    with ehkafka.Endpoint.embedded({"orders": 2}) as lending, ehkafka.Endpoint.embedded() as borrowing:
        loan = lending.lend_broker(["letters"])
        assert isinstance(loan, Loan)
        assert loan.topics == ("letters", "orders")
        borrowing.client_properties()  # started one of its own, which goes
        borrowing.borrow_broker(loan)
        assert borrowing.client_properties() == lending.client_properties()
        borrowing.prepare_topics(["orders", "letters"])
        with pytest.raises(ConfigurationError, match=r"no topic 'more'.*Endpoint\.embedded"):
            borrowing.prepare_topics(["more"])
    assert ehkafka.Endpoint.kafka("127.0.0.1:1").lend_broker(["orders"]) is None
