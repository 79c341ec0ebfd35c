"""A container by its URL, entered with an Entra ID identity: no connection string, and no secret on show."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import orjson
import pytest
from typer.testing import CliRunner

import ehkafka
from ehkafka.checkpoints.layout import Layout
from ehkafka.cli.commands import cli
from ehkafka.embedded.broker import EmbeddedBroker
from tests.kit.identity_endpoint import IdentityEndpoint
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ehkafka.checkpoints.stores.store import CheckpointStore
    from tests.kit.azurite import Azurite

HOST = "home.servicebus.windows.net"
ENTRA = ("--credential", "managed_identity")


class Place:
    """A broker with ten records in each of two partitions, a container, and who may enter it."""

    def __init__(self, broker: EmbeddedBroker, url: str, identity: IdentityEndpoint) -> None:
        self.broker = broker
        self.url = url
        self.identity = identity

    def ehkafka(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command; return exit code, stdout and stderr, in which no secret is."""
        where = ["--endpoint", self.broker.bootstrap, "--group", "g", "--timeout", "5"]
        ended = CliRunner().invoke(cli, [*arguments, *where])
        shown = f"{ended.stdout}{ended.stderr}"
        # Of a token, what it says: head and signature are the same for all.
        for secret in (self.identity.header, *(token.split(".")[1] for token in self.identity.issued)):
            assert secret not in shown
        return ended.exit_code, ended.stdout, ended.stderr

    def store(self) -> CheckpointStore:
        """Return the container as its mirror opens it."""
        return ehkafka.BlobMirror(self.url, "managed_identity").open_store()

    def committed(self) -> dict[int, int | None]:
        """Return the group's commits."""
        return self.broker.committed("g", "t")


@pytest.fixture
def place(token_azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Set it up, the identity where azure-identity finds it."""
    with EmbeddedBroker({"t": 2}) as broker, IdentityEndpoint() as identity:
        for name, value in identity.environment().items():
            monkeypatch.setenv(name, value)
        for partition in range(2):
            broker.produce("t", [("k", b"v")] * 10, partition=partition)
        yield Place(broker, token_azurite.create_container(f"c{uuid.uuid4().hex[:12]}"), identity)


def test_checkpoints_are_imported_exported_and_compared_by_url(place: Place) -> None:
    """The identity is asked for Blob Storage alone; a preview moves nothing, --yes moves."""
    store = place.store()
    for partition, number in {0: "4", 1: "6"}.items():
        name = Layout(HOST, "$default").name("t", partition)
        metadata = {"sequencenumber": number, "offset": "1024"}
        store.write(name, metadata=metadata, body=b"", expected=None)
    store.close()
    source = ("--from", place.url, *ENTRA)
    code, text, error = place.ehkafka("offsets", "import", "t", *source)
    assert code == 0, error
    assert "Nothing was moved" in text
    assert set(place.committed().values()) == {None}
    code, text, error = place.ehkafka("offsets", "import", "t", *source, "--watch-for", "0", "--yes")
    assert code == 0, error
    assert place.committed() == {0: 5, 1: 7}
    target = ("--to", place.url, *ENTRA, "--to-namespace", "other", "--yes")
    code, text, error = place.ehkafka("offsets", "export", "t", *target)
    assert code == 0, error
    assert "Written and read back" in text
    code, text, error = place.ehkafka("offsets", "diff", "t", *source, "--from-namespace", "other")
    assert code == 0, error
    assert "all that is there agrees" in text
    assert {request.resource for request in place.identity.requests} == {"https://storage.azure.com"}


def test_a_mirror_by_url_is_written_shown_and_checked(place: Place) -> None:
    """The app's mirror enters with the identity, and so do `owners` and `check` with --mirror."""
    mirror = ehkafka.BlobMirror(place.url, "managed_identity", interval_s=0.1, namespace=HOST)
    app = ehkafka.App(
        group="g", endpoint=ehkafka.Endpoint.kafka(place.broker.bootstrap), start="earliest", mirror=mirror
    )
    app.handler("t")(lambda _record: None)
    store = place.store()

    def mirrored() -> list[str]:
        blobs = store.list_blobs(Layout(HOST, "g").prefix("t", "checkpoint"))
        return [blob.metadata["sequencenumber"] for blob in blobs]

    app.start()
    try:
        wait_until(lambda: mirrored() == ["9", "9"])
        code, text, error = place.ehkafka(
            "owners", "t", "--mirror", place.url, *ENTRA, "--namespace", HOST, "--json"
        )
        assert code == 0, error
        assert {row["state"] for row in orjson.loads(text)["partitions"]} == {"owned"}
    finally:
        app.stop()
        store.close()
    code, text, error = place.ehkafka("check", "--topic", "t", "--mirror", place.url, *ENTRA)
    assert code == 0, text + error
    assert f"✓ mirror     {place.url} takes writes" in text


def test_an_identity_that_is_refused_is_reported_in_a_line(place: Place) -> None:
    """No token, and a container that is not there: what to do, in one line, with the place."""
    code, _, error = place.ehkafka("offsets", "import", "t", "--from", f"{place.url}x", *ENTRA)
    assert code == 3
    assert "Create the container, or correct its name" in error
    place.identity.fail(400, '{"statusCode":400,"message":"no such identity"}')
    began_s = time.monotonic()
    code, _, error = place.ehkafka("offsets", "import", "t", "--from", place.url, *ENTRA)
    assert code == 3
    assert place.url in error
    assert "Storage Blob Data Contributor" in error
    assert len(error.splitlines()) == 1
    assert time.monotonic() - began_s < 30.0
