from __future__ import annotations

import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.checkpoints.stores.blob import BlobStore
from ehkafka.checkpoints.stores.store import (
    StoreConflictError,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
)
from tests.kit.faults.http_proxy import Fault, HttpProxy
from tests.kit.unstolen import unstolen_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.kit.azurite import Azurite

NAME = "ns/hub/group/checkpoint/0"
KEY = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="


@pytest.fixture
def proxy(azurite: Azurite) -> Iterator[HttpProxy]:
    """Return a proxy before Azurite."""
    with HttpProxy(azurite.address) as found:
        yield found


@pytest.fixture
def far(
    azurite: Azurite, proxy: HttpProxy, container: str, open_store: Callable[..., BlobStore]
) -> Iterator[BlobStore]:
    """Return a store behind the proxy."""
    store = open_store(azurite.connection_string(proxy.address), container, connect_s=0.5, read_s=0.5)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault(status=503, code="ServerBusy"), StoreUnavailableError),
        (Fault(status=500), StoreUnavailableError),
        (Fault(status=429), StoreUnavailableError),
        (Fault(cut=True), StoreUnavailableError),
        (Fault(latency_s=30.0), StoreUnavailableError),
        (Fault(status=412, code="ConditionNotMet"), StoreConflictError),
        (Fault(status=409, code="BlobAlreadyExists"), StoreConflictError),
        (Fault(status=409), StoreConflictError),
        (Fault(status=409, code="ContainerBeingDeleted"), StoreMissingError),
        (Fault(status=412, code="LeaseIdMissing"), StoreForbiddenError),
        (Fault(status=403, code="AuthorizationFailure"), StoreForbiddenError),
        (Fault(status=401), StoreForbiddenError),
        (Fault(status=404, code="ContainerNotFound"), StoreMissingError),
        (Fault(status=404), StoreMissingError),
        (Fault(status=400, code="InvalidHeaderValue"), StoreError),
    ],
    ids=lambda value: str(value) if isinstance(value, Fault) else "",
)
def test_each_answer_is_an_error_of_its_kind(
    proxy: HttpProxy, far: BlobStore, fault: Fault, kind: type[StoreError]
) -> None:
    """One request, one error that says where, what, and the next step; nothing is tried again in secret."""
    proxy.fault = lambda _request: fault
    began_s = unstolen_s()
    with pytest.raises(kind) as found:
        far.write(NAME, metadata={}, body=b"1", expected=None)
    assert type(found.value) is kind
    assert NAME in str(found.value)
    assert unstolen_s() - began_s < 5.0
    assert len(proxy.seen) <= 1


def test_a_lost_answer_is_no_proof_that_nothing_was_written(proxy: HttpProxy, far: BlobStore) -> None:
    """The write that got no answer may have happened: the next one meets a conflict, not a second blob."""
    proxy.fault = lambda _request: Fault(lose_answer=True)
    with pytest.raises(StoreUnavailableError) as unavailable:
        far.write(NAME, metadata={}, body=b"1", expected=None)
    assert str(unavailable.value).endswith("Check the network and the storage account.")
    proxy.heal()
    with pytest.raises(StoreConflictError):
        far.write(NAME, metadata={}, body=b"2", expected=None)
    found = far.read(NAME)
    assert found is not None
    assert found.body == b"1"


def test_a_container_that_is_not_there_is_named(
    azurite: Azurite, open_store: Callable[..., BlobStore]
) -> None:
    """Reading, listing and writing say that the container is missing, not that the blob is."""
    store = open_store(azurite.connection_string(), "nowhere")
    for call in (
        lambda: store.read(NAME),
        lambda: list(store.list_blobs("")),
        lambda: store.write(NAME, metadata={}, body=b"", expected=None),
    ):
        with pytest.raises(StoreMissingError, match="ContainerNotFound"):
            call()
    store.close()


def test_errors_hold_no_secret(
    azurite: Azurite, container: str, open_store: Callable[..., BlobStore]
) -> None:
    """Neither the message nor anything chained to it repeats a key, a signature or a SAS."""
    wrong = azurite.connection_string().replace("Eby8", "Xby8")
    refused = open_store(wrong, container)
    gone = open_store(
        f"BlobEndpoint=http://127.0.0.1:1/devstoreaccount1;SharedAccessSignature=sv=2024-01-01&sig={KEY}",
        container,
        connect_s=0.5,
    )
    for store, kind in ((refused, StoreForbiddenError), (gone, StoreUnavailableError)):
        with pytest.raises(kind) as found:
            store.read(NAME)
        text = _everything(found.value)
        assert KEY not in text
        assert "sig=" not in text
        assert "Signature" not in text
        # Whatever the SDK's own error says this time: it is not reachable from ours.
        assert (found.value.__cause__, found.value.__context__) == (None, None)
        store.close()
    assert "refused" in str(found.value).lower()


def _everything(error: BaseException) -> str:
    parts: list[Any] = [*traceback.format_exception(error)]
    while (error := error.__cause__ or error.__context__) is not None:  # type: ignore[assignment]
        parts += [repr(error), str(error), *error.args]
    return "\n".join(map(str, parts))


def test_a_listing_fetches_no_page_that_is_not_read() -> None:
    """A container may hold millions of blobs; who looks for a few stops long before."""
    fetched: list[int] = []

    def pages() -> Iterator[list[Any]]:
        for number in range(3):
            fetched.append(number)
            yield [SimpleNamespace(name=f"b{number}", etag='"1"', metadata=None, last_modified=None)]

    client = SimpleNamespace(list_blobs=lambda **_options: SimpleNamespace(by_page=pages))
    listing = BlobStore(lambda _options: client, "c").list_blobs("")
    assert next(listing).name == "b0"
    assert fetched == [0]
    assert [blob.name for blob in listing] == ["b1", "b2"]
