"""Consumer groups: their names, their sessions, how an idle one shows, and the new protocol (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from _live.committing import Committer
from _live.offered import CONSUMER_GROUP_HEARTBEAT, DESCRIBE_GROUPS, LIST_GROUPS, offered_versions
from _live.probe import CLIENT_SETTINGS, OVERVIEW, QUOTAS, NotTried, Observed, Probe, differs, noted, ok
from _live.site import REQUEST_S
from ehkafka.endpoint.properties.limits import (
    GROUP_NAME_CHARACTERS_MAX,
    SESSION_TIMEOUT_MS_MAX,
    SESSION_TIMEOUT_MS_MIN,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from _live.site import Site

JOIN_S = 12.0


def names(site: Site) -> Observed:
    """Commit in a group with the longest name, see how it shows, and try a longer one."""
    prefix = site.ledger.prefix
    sizes = GROUP_NAME_CHARACTERS_MAX, GROUP_NAME_CHARACTERS_MAX + 1
    longest, longer = (site.group("n" * (size - len(prefix))) for size in sizes)
    answers = {}
    for group in (longest, longer):
        committer = Committer(site, group, site.topic)
        answers[len(group)] = committer.commit(1).name or "accepted"
        committer.close()
    facts = {"sizes": {str(size): answer for size, answer in answers.items()}, **_shown(site, longest)}
    within, beyond = answers.values()
    shown = f"the group, which is idle, is {facts['listed']}, and its state is {facts['described']}"
    if within != "accepted":
        return differs(f"a name of {len(longest)} characters is refused: {within}; {shown}", **facts)
    if beyond == "accepted":
        return differs(f"a name of {len(longer)} characters is accepted; {shown}", **facts)
    return ok(f"{len(longest)} characters are accepted, {len(longer)} refused: {beyond}; {shown}", **facts)


def _shown(site: Site, group: str) -> dict[str, str]:
    admin, offered = site.admin(), offered_versions(site.endpoint)
    if not {DESCRIBE_GROUPS, LIST_GROUPS} <= offered.keys():
        return {"listed": "not listed", "described": "not offered"}
    try:
        found = admin.list_consumer_groups(request_timeout=REQUEST_S).result(REQUEST_S)
        listed = "listed" if any(one.group_id == group for one in found.valid) else "not listed"
    except KafkaException as error:
        listed = f"not listed ({error.args[0].name()})"
    try:
        description = admin.describe_consumer_groups([group], request_timeout=REQUEST_S)[group]
        described = description.result(REQUEST_S).state.name
    except KafkaException as error:
        described = error.args[0].name()
    return {"listed": listed, "described": described}


def sessions(site: Site) -> Observed:
    """Join with a session just outside of each bound."""
    answers = {}
    for session_ms in (SESSION_TIMEOUT_MS_MIN - 1, SESSION_TIMEOUT_MS_MAX + 1):
        answers[session_ms] = _joined(
            site,
            site.group(f"session-{session_ms}"),
            {"session.timeout.ms": session_ms, "max.poll.interval.ms": 2 * SESSION_TIMEOUT_MS_MAX},
        )
    facts = {"sessions_ms": {str(session): answer for session, answer in answers.items()}}
    text = ", ".join(f"{session} ms: {answer}" for session, answer in answers.items())
    if "assigned" in answers.values():
        return differs(f"a session outside of the bounds is accepted: {text}", **facts)
    return ok(f"refused: {text}", **facts)


def new_protocol(site: Site) -> Observed:
    """Join by the protocol of KIP-848."""
    if CONSUMER_GROUP_HEARTBEAT not in offered_versions(site.endpoint):
        return noted("its requests are not offered; the engine uses the classic protocol")
    answer = _joined(site, site.group("kip-848"), {"group.protocol": "consumer"})
    text = "a member is assigned its partitions" if answer == "assigned" else f"it is refused: {answer}"
    return noted(f"{text}; the engine uses the classic protocol", answer=answer)


def _joined(site: Site, group: str, properties: dict[str, Any]) -> str:
    """Return `assigned`, or the error's name."""
    errors: list[KafkaError] = []
    assigned: list[Any] = []
    own = {"group.id": group, "enable.auto.commit": False, **properties}
    consumer = site.plain_consumer(own, error_cb=errors.append)
    consumer.subscribe([site.topic], on_assign=lambda _client, partitions: assigned.append(partitions))

    def is_answered() -> bool:
        try:
            found = [message.error() for message in consumer.consume(1, 0.1)]
            errors.extend(error for error in found if error is not None)
        except KafkaException as error:
            errors.append(error.args[0])
        return bool(assigned or [one for one in errors if not _is_passing(one)])

    is_over = site.wait(is_answered, JOIN_S)
    consumer.close()
    if assigned:
        return "assigned"
    if not is_over:
        return f"no answer within {JOIN_S:.0f} s"
    return errors[-1].name()


def _is_passing(error: KafkaError) -> bool:
    return error.retriable() or error.name() in {"_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE"}


def count(site: Site) -> Observed:
    """Never tried: it would take the last group away from all others on the namespace."""
    raise NotTried(f"reaching the limit would block the other apps of {site.given.namespace}")


PROBES = (
    Probe(
        name="group-names",
        documented="At most 256 characters in a group's name",
        link=QUOTAS,
        function=names,
        expected_s=6.0,
        creates="two groups",
    ),
    Probe(
        name="group-count",
        documented="At most 1000 consumer groups in a namespace",
        link=QUOTAS,
        function=count,
        expected_s=0.0,
        needs=(),
    ),
    Probe(
        name="sessions",
        documented="session.timeout.ms from 6000 to 300000",
        link=CLIENT_SETTINGS,
        function=sessions,
        expected_s=10.0,
        creates="two groups",
    ),
    Probe(
        name="kip-848",
        documented="No statement was found on group.protocol=consumer",
        link=OVERVIEW,
        function=new_protocol,
        expected_s=8.0,
        creates="a group",
    ),
)
