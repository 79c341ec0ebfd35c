"""Removes what a ledger names: consumer groups, topics, blobs. Nothing else is ever touched.

What is not there any more counts as removed. What cannot be removed stays in the ledger, with a sentence for
the person who must do it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException

from _live.offered import DELETE_GROUPS, LIST_GROUPS, offered_versions
from _live.site import quiet_admin
from ehkafka.checks.group import NOT_YET
from ehkafka.endpoint.client import describe_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import AdminClient

    from _live.ledger import Ledger
    from ehkafka import Endpoint

REQUEST_S = 15.0
# A member that died without leaving keeps its group alive for its session.
GROUP_EMPTY_S = 35.0
AGAIN_S = 0.5
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's own code
}
_NOT_YET = {*NOT_YET, KafkaError.NON_EMPTY_GROUP}
GROUP_STAYS = (
    "the service offers no request to delete a group. If the probe went so far as to create it, it has no "
    "members and no topic any more, and counts among the namespace's 1000 until the service drops it"
)
NOT_OURS = (
    "this run gives no such name, so its ledger was changed by another program: it is not touched. Take the "
    "name out of the ledger"
)


def clean(ledger: Ledger, endpoint: Endpoint, mirror: Any) -> dict[str, str]:
    """Remove all; return what is left, by name, with the reason."""
    ledger.close()
    admin = quiet_admin(endpoint)
    left = _remove(ledger, "topics", ledger.topics, lambda name: _topic(admin, name))
    left |= _remove(ledger, "blobs", ledger.blobs, lambda name: _blobs(mirror, name))
    if ledger.groups:
        is_offered = DELETE_GROUPS in offered_versions(endpoint)
        left |= _remove(
            ledger, "groups", ledger.groups, lambda name: _group(admin, name) if is_offered else GROUP_STAYS
        )
    ledger.end()
    return left


def names_of_run(endpoint: Endpoint, prefix: str) -> tuple[list[str], list[str]]:
    """Return the topics and the groups that begin so, for a run whose ledger is elsewhere."""
    admin = quiet_admin(endpoint)
    there = [name for name in admin.list_topics(timeout=REQUEST_S).topics if name.startswith(prefix)]
    found = []
    if LIST_GROUPS in offered_versions(endpoint):
        found = admin.list_consumer_groups(request_timeout=REQUEST_S).result(REQUEST_S).valid
    return sorted(there), sorted(one.group_id for one in found if one.group_id.startswith(prefix))


def _remove(
    ledger: Ledger, kind: str, names: list[str], remove: Callable[[str], str | None]
) -> dict[str, str]:
    left = {}
    for name in names:
        if not ledger.owns(kind, name):
            left[name] = NOT_OURS
            continue
        try:
            reason = remove(name)
        except KafkaException as error:
            reason = describe_error(error.args[0])
        except Exception as error:  # an SDK's; its text may hold a SAS
            reason = f"{type(error).__name__} in the storage's client"
        if reason is None:
            ledger.remove(kind, name)
        else:
            left[name] = reason
    return left


def _topic(admin: AdminClient, name: str) -> str | None:
    try:
        admin.delete_topics([name], request_timeout=REQUEST_S)[name].result(REQUEST_S)
    except KafkaException as error:
        if error.args[0].code() not in _GONE:
            raise
    give_up_s = time.monotonic() + REQUEST_S
    while name in admin.list_topics(timeout=REQUEST_S).topics:
        if time.monotonic() > give_up_s:
            return f"it is still listed {REQUEST_S:.0f} s after it was deleted"
        time.sleep(0.05)
    return None


def _group(admin: AdminClient, name: str) -> str | None:
    give_up_s = time.monotonic() + GROUP_EMPTY_S
    while True:
        try:
            admin.delete_consumer_groups([name], request_timeout=REQUEST_S)[name].result(REQUEST_S)
        except KafkaException as failure:
            error = failure.args[0]
        else:
            return None
        if error.code() in _GONE:
            return None
        if error.code() not in _NOT_YET or time.monotonic() > give_up_s:
            return describe_error(error)
        time.sleep(AGAIN_S)


def _blobs(mirror: Any, prefix: str) -> str | None:
    if mirror is None:
        return "the container was not given: --container"
    client, credential = mirror.open_client({})
    try:
        for blob in list(client.list_blobs(name_starts_with=prefix)):
            client.delete_blob(blob.name)
    finally:
        client.close()
        if credential is not None:
            with suppress(Exception):  # a pooled connection that is gone already
                credential.close()
    return None
