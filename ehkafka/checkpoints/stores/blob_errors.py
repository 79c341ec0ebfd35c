"""What Blob Storage answers, as the errors of a store.

Never repeats the SDK's own text: it may hold the address with a SAS, or a signature. Said are the status,
the service's code, and the kind of a network failure; each with the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ehkafka.checkpoints.stores.store import (
    StoreConflictError,
    StoreError,
    StoreForbiddenError,
    StoreMissingError,
    StoreUnavailableError,
)
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

# The service's own codes, besides the statuses 401, 403, 409 and 412 without one.
_CONFLICTS = {"BlobAlreadyExists", "ConditionNotMet", "UnauthorizedBlobOverwrite", "BlobOverwritten"}
_MISSING = {"ContainerNotFound", "ResourceNotFound", "ContainerBeingDeleted", "AccountNotFound"}
_NOT_FOR_US = {"BlobImmutableDueToPolicy", "LeaseIdMissing", "InsufficientAccountPermissions"}

_GRANT = (
    "Give the identity the role Storage Blob Data Contributor on the container, or correct the key or SAS; "
    "a firewall of the storage account answers the same"
)


def explained(error: Exception, where: str) -> StoreError:
    """Return the store's error for whatever a call of the SDK raised; `where` is container and blob."""
    status, code = _status(error), error_code(error)
    shown = " ".join(str(part) for part in (status, code) if part) or _network(error)
    if code in _MISSING or (status == 404 and code != "BlobNotFound"):
        return StoreMissingError(f"{where}: {ended(shown)} Create the container, or correct its name.")
    if code in _NOT_FOR_US or status in {401, 403} or _is_refused_credential(error):
        return StoreForbiddenError(f"{where}: {ended(shown)} {ended(_GRANT)}")
    if code in _CONFLICTS or (status in {409, 412} and not code):
        return StoreConflictError(
            f"{where}: {shown}: another program has written the blob since ehkafka read the blob."
        )
    if status == 400:
        return StoreError(f"{where}: {shown}: the service refuses the request. Please report this defect.")
    return StoreUnavailableError(f"{where}: {ended(shown)} Check the network and the storage account.")


def is_missing_blob(error: Exception) -> bool:
    """Tell whether the service says that the container is there and the blob is not."""
    return _status(error) == 404 and error_code(error) == "BlobNotFound"


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) else None


def error_code(error: Exception) -> str:
    """Return the service's own word for what is wrong, or nothing."""
    found: object = getattr(error, "error_code", None)
    text = str(getattr(found, "value", found) or "")
    # The service's text is hostile input: only a word counts.
    return text if text.isascii() and text.isalnum() and len(text) <= 64 else ""


def _is_refused_credential(error: Exception) -> bool:
    # By name: importing azure.core here would cost each program without a mirror.
    return any(kind.__name__ == "ClientAuthenticationError" for kind in type(error).__mro__)


def _network(error: Exception) -> str:
    """Return the system's word for a failure, `ConnectionRefusedError (Connection refused)`, or its kind."""
    for one in _causes(error):
        if isinstance(one, OSError) and one.strerror:
            return f"{type(one).__name__} ({one.strerror})"
    return type(error).__name__


def _causes(error: BaseException) -> Iterator[BaseException]:
    # urllib3 keeps causes in `reason` and among the arguments instead of chaining them.
    seen: set[int] = set()
    left: list[Any] = [error]
    while left:
        one = left.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        more = (one.__cause__, one.__context__, getattr(one, "inner_exception", None))
        left += [*more, getattr(one, "reason", None), *one.args]
