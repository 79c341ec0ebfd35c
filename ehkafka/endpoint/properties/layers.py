"""Lays librdkafka properties over one another: our defaults, the endpoint's, the user's overrides.

Pure but for the embedded broker, which starts when its address is asked. Refuses what is unsafe (see
`setting_checks`); opens no client. Called once per client, before its threads exist; `explain_consumer` tells
of the same result where each value came from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ehkafka.endpoint.client_name import client_name
from ehkafka.endpoint.producer_id import STATISTICS_MS
from ehkafka.endpoint.properties import limits, setting_checks
from ehkafka.endpoint.properties.ahead import AHEAD, Ahead
from ehkafka.endpoint.properties.names import in_one_spelling
from ehkafka.endpoint.properties.setting_checks import Owned, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ehkafka.endpoint.endpoint import Endpoint

LETTER_BYTES = "message.max.bytes"
"""The property that bounds a letter; a Dedicated namespace takes up to 20 MB."""

Assignor = Literal["default", "cooperative-sticky"]
Layer = Literal["default", "endpoint", "app", "engine"]

# librdkafka's own default, so that plain clients and ours can share a group while one replaces the other.
_ASSIGNORS: dict[str, str] = {"default": "range,roundrobin", "cooperative-sticky": "cooperative-sticky"}

_SESSION_TIMEOUT_MS = limits.SESSION_TIMEOUT_MS_RECOMMENDED
_HEARTBEAT_MS = limits.HEARTBEAT_MS_RECOMMENDED
_MAX_POLL_MS = limits.MAX_POLL_MS_RECOMMENDED
# The embedded broker forms a group anew only when its session time-out is nearly over.
_EMBEDDED_SESSION_TIMEOUT_MS = 1_500
_EMBEDDED_HEARTBEAT_MS = 100


@dataclass(frozen=True, slots=True)
class Explained:
    """One effective property: the layer that decided its value, and why it has it (may be empty)."""

    name: str
    # Not shown: it may be a password.
    value: object = field(repr=False)
    layer: Layer
    reason: str


@dataclass(frozen=True, slots=True)
class _Default:
    name: str
    value: object
    reason: str


_CONSUMER = "App(consumer=…)"
_CONSUMER_DEFAULTS = (
    # At its default of 1000 a full queue makes any reader wait a second: half the throughput or worse.
    _Default("fetch.queue.backoff.ms", 5, "at librdkafka's 1000 a full queue makes reading wait a second"),
    # Replaced by what the app's backlog and the number of apps leave, see `ahead`. A fetch is asked for while
    # less waits in the one queue of all partitions, so a quiet partition waits behind that.
    _Default("queued.min.messages", AHEAD.records, "records fetched ahead, over all partitions"),
    _Default("queued.max.messages.kbytes", AHEAD.kilobytes, "memory of the prefetch, over all partitions"),
    # What one answer brings, and of one partition. A broker fills an answer partition by partition and cuts
    # the last batch of each, which is then fetched again: small parts serve more partitions, but 128 KiB cost
    # a fifth of the bytes where producers send batches of 100 kB.
    _Default("fetch.max.bytes", 4_194_304, "so that an answer does not bring far more than is asked for"),
    _Default("max.partition.fetch.bytes", 393_216, "so that an answer serves many partitions"),
    _Default("socket.keepalive.enable", True, "a dead connection is noticed"),
    _Default("check.crcs", True, "a batch that was damaged is found before a record of it is handled"),
)

_CLIENT_ID_REASON = "names the process in the broker's logs, quotas and member ids"

_CONSUMER_OWNED = (
    Owned(
        "enable.auto.commit",
        value=False,
        reason="ehkafka commits itself; librdkafka would commit records that no handler has finished",
        fix="Leave it out, and set the pace with App(commit_interval_s=…)",
    ),
    Owned(
        "enable.auto.offset.store",
        value=False,
        reason="ehkafka stores offsets itself; librdkafka would store offsets of records that no handler "
        "has finished",
        fix="Leave it out",
    ),
    Owned(
        "auto.offset.reset",
        value="error",
        reason="ehkafka decides where reading begins, because a reset must never be silent",
        fix="Leave it out and use App(start=…), which decides where a group without a commit begins",
    ),
    Owned(
        "enable.partition.eof",
        value=False,
        reason="ehkafka does not use this event: the end of a partition is not a record, and does not prove "
        "that the app has caught up",
        fix="Leave this property out",
    ),
    Owned(
        "group.protocol",
        value="classic",
        reason="ehkafka needs the classic protocol, and Event Hubs documents no other protocol",
        fix="Leave it out",
    ),
)
_CONSUMER_CALLBACKS = (
    "on_commit",
    "on_assign",
    "on_revoke",
    "on_lost",
    "rebalance_cb",
    "offset_commit_cb",
    "consume_cb",
    "background_event_cb",
)

_REQUEST_TIMEOUT = {"request.timeout.ms": limits.REQUEST_TIMEOUT_MS_RECOMMENDED}
_PRODUCER_OWNED = (
    Owned(
        "enable.idempotence",
        value=True,
        reason="without idempotence, a retry could repeat a record or change the order of a key's records",
        fix="Leave it out",
    ),
    Owned(
        "acks",
        value="all",
        reason="a record may be committed only after all in-sync replicas have its outputs",
        fix="Leave it out",
    ),
)


def consumer_properties(
    endpoint: Endpoint,
    group: str,
    overrides: Mapping[str, object],
    *,
    assignor: Assignor,
    instance_id: str | None,
    ahead: Ahead = AHEAD,
) -> dict[str, Any]:
    """Return the properties of the app's consumer, secrets in the clear.

    Raises `ConfigurationError` naming property, value, owner or limit, and the fix.
    """
    setting_checks.check_group(group, is_event_hubs=endpoint.is_event_hubs)
    asked = _asked(endpoint, overrides)
    owned = _consumer_owned(group, assignor, instance_id)
    setting_checks.check_callbacks(asked, _CONSUMER_CALLBACKS)
    setting_checks.check_owned(asked, owned)
    if "group.instance.id" in asked:
        setting_checks.check_instance_id(asked["group.instance.id"])
    defaults = {"client.id": client_name()} | {each.name: each.value for each in _CONSUMER_DEFAULTS}
    result = {**defaults, **ahead.properties, **asked, **{rule.name: rule.value for rule in owned}}
    if "fetch.max.bytes" not in asked and LETTER_BYTES in asked:
        # librdkafka wants room for the largest record in an answer.
        largest_bytes = whole_number(LETTER_BYTES, asked[LETTER_BYTES])
        result["fetch.max.bytes"] = max(result["fetch.max.bytes"], largest_bytes)
    set_timings(result, is_embedded=endpoint.is_embedded)
    setting_checks.check_timings(result, is_event_hubs=endpoint.is_event_hubs)
    if endpoint.is_event_hubs:
        setting_checks.check_protocol(result, is_emulator=endpoint.kind == "emulator")
        check_idle_times(result)
    return result


def explain_consumer(
    endpoint: Endpoint,
    group: str,
    overrides: Mapping[str, Any],
    *,
    assignor: Assignor,
    instance_id: str | None,
    ahead: Ahead = AHEAD,
) -> tuple[Explained, ...]:
    """Return what `consumer_properties` returns, by name, each with its layer and reason.

    Secrets are in the clear here too. Raises `ConfigurationError` for the same.
    """
    membership: dict[str, Any] = {"assignor": assignor, "instance_id": instance_id}
    result = consumer_properties(endpoint, group, overrides, **membership, ahead=ahead)
    reasons = {"client.id": _CLIENT_ID_REASON} | {each.name: each.reason for each in _CONSUMER_DEFAULTS}
    by_layer: dict[Layer, dict[str, str]] = {
        "engine": {rule.name: rule.reason for rule in _consumer_owned(group, assignor, instance_id)},
        "app": dict.fromkeys(in_one_spelling(overrides, _CONSUMER), ""),
        "endpoint": dict.fromkeys(endpoint.client_properties(), "how the endpoint is reached"),
        "default": reasons,
    }
    return tuple(_explained(name, result[name], by_layer, endpoint) for name in sorted(result))


def _explained(
    name: str, value: object, by_layer: Mapping[Layer, Mapping[str, str]], endpoint: Endpoint
) -> Explained:
    layer: Layer = next((layer for layer, names in by_layer.items() if name in names), "default")
    reason = by_layer[layer].get(name, "")
    documented = limits.CLIENT_SETTINGS.get(name)
    if documented is not None and layer != "engine":
        reason = documented.reason
        if endpoint.is_event_hubs and documented.permitted:
            reason += f"; Event Hubs permits {documented.permitted}"
    return Explained(name, value, layer, reason)


def producer_properties(
    endpoint: Endpoint, overrides: Mapping[str, object], origin: str = _CONSUMER
) -> dict[str, Any]:
    """Return the properties of an idempotent producer for this endpoint, secrets in the clear.

    `origin` is where the overrides stand. Raises `ConfigurationError` naming property, value, owner or limit,
    and the fix.
    """
    asked = _asked(endpoint, overrides, origin)
    if "transactional.id" in asked:
        raise setting_checks.invalid(
            "transactional.id",
            asked["transactional.id"],
            "ehkafka sets this ID itself, and only with exactly_once",
            "Leave this property out",
        )
    setting_checks.check_owned(_with_acks_by_name(asked), _PRODUCER_OWNED)
    result = {"client.id": client_name(), "socket.keepalive.enable": True, **asked}
    result |= {rule.name: rule.value for rule in _PRODUCER_OWNED}
    if endpoint.is_event_hubs:
        _to_numbers(result, ("request.timeout.ms",), _REQUEST_TIMEOUT)
        setting_checks.check_protocol(result, is_emulator=endpoint.kind == "emulator")
        setting_checks.check_produce(result)
        check_idle_times(result)
    return result


def admin_properties(endpoint: Endpoint) -> dict[str, Any]:
    """Return the properties of a client that only asks, secrets in the clear.

    librdkafka makes a producer of it, which would ask the broker for a producer's id. Raises
    `ConfigurationError` as `producer_properties` does.
    """
    return producer_properties(endpoint, {}) | {"enable.idempotence": False}


def letter_properties(endpoint: Endpoint, consumer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the properties of a producer that copies received records: dead letters, and their way back.

    `consumer` are the app's own properties; of these `message.max.bytes` counts here, too.
    """
    given = in_one_spelling(consumer, _CONSUMER)
    of_service = limits.LETTER_BYTES_MAX if endpoint.is_event_hubs else limits.KAFKA_LETTER_BYTES_MAX
    return {
        LETTER_BYTES: of_service,
        "statistics.interval.ms": STATISTICS_MS,
        **producer_properties(endpoint, {LETTER_BYTES: given[LETTER_BYTES]} if LETTER_BYTES in given else {}),
    }


def without_ids(properties: Mapping[str, object]) -> dict[str, Any]:
    """Return a producer's properties for a broker without producer ids: one request at a time keeps order."""
    ours = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
    of_ids = ("statistics.interval.ms", "enable.gapless.guarantee")
    return {name: value for name, value in properties.items() if name not in of_ids} | ours


def _asked(endpoint: Endpoint, overrides: Mapping[str, Any], origin: str = _CONSUMER) -> dict[str, Any]:
    """Return what the endpoint and the user want, in one spelling, the user's word last."""
    chosen = in_one_spelling(overrides, origin)
    connection = endpoint.client_properties()
    setting_checks.check_connection(connection, chosen)
    result = {**connection, **chosen}
    setting_checks.check_trust(result, kind=endpoint.kind)
    setting_checks.check_metadata_age(result)
    return result


def _consumer_owned(group: str, assignor: str, instance_id: str | None) -> tuple[Owned, ...]:
    """Return what only the engine sets: the same for all apps, and this app's membership."""
    return (*_CONSUMER_OWNED, *_membership(group, assignor, instance_id))


def _membership(group: str, assignor: str, instance_id: str | None) -> list[Owned]:
    if assignor not in _ASSIGNORS:
        raise setting_checks.invalid(
            "assignor", assignor, "this assignor is unknown", f"Choose one of {', '.join(_ASSIGNORS)}"
        )
    rules = [
        Owned(
            "group.id",
            group,
            "the app's group decides this property",
            "Leave the property out, and use App(group=…)",
            is_exact=True,
        ),
        Owned(
            "partition.assignment.strategy",
            _ASSIGNORS[assignor],
            "ehkafka must know how partitions move between members",
            "Leave the property out, and use App(assignor=…)",
        ),
    ]
    if instance_id is not None:
        setting_checks.check_instance_id(instance_id)
        fix = "Leave the property out, and use App(instance_id=…)"
        reason = "the app's instance_id decides this property"
        rules.append(Owned("group.instance.id", instance_id, reason, fix, is_exact=True))
    return rules


def set_timings(result: dict[str, Any], *, is_embedded: bool) -> None:
    """Fill in the group's timings; those left open follow the session time-out that was asked."""
    session_ms = _EMBEDDED_SESSION_TIMEOUT_MS if is_embedded else _SESSION_TIMEOUT_MS
    heartbeat_ms = _EMBEDDED_HEARTBEAT_MS if is_embedded else _HEARTBEAT_MS
    _to_numbers(result, ("session.timeout.ms",), {"session.timeout.ms": session_ms})
    session_ms = result["session.timeout.ms"]
    defaults = {
        "heartbeat.interval.ms": max(1, min(heartbeat_ms, session_ms // 3)),
        "max.poll.interval.ms": _MAX_POLL_MS if session_ms < _MAX_POLL_MS else 2 * session_ms,
    }
    _to_numbers(result, tuple(defaults), defaults)


def check_idle_times(result: dict[str, Any]) -> None:
    """Refuse, for Event Hubs, ages at which Azure has already dropped the connection."""
    _to_numbers(result, ("metadata.max.age.ms", "connections.max.idle.ms"), {})
    setting_checks.check_idle_times(result)


def _to_numbers(result: dict[str, Any], names: Iterable[str], defaults: Mapping[str, int]) -> None:
    for name in names:
        result[name] = whole_number(name, result.get(name, defaults.get(name)))


def _with_acks_by_name(asked: Mapping[str, object]) -> dict[str, Any]:
    """Return a copy in which librdkafka's number for all acknowledgements has its name."""
    is_all = str(asked.get("acks", "")).strip() == "-1"
    return {**asked, "acks": "all"} if is_all else dict(asked)
