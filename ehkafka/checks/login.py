"""From the settings to the broker's consent: the steps `settings`, `token`, `auth` and `clock`."""

from __future__ import annotations

import base64
import binascii
import time
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import confluent_kafka
import orjson
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException
from confluent_kafka.cimpl import TopicPartition as KafkaPartition

from ehkafka.checks.inspection import problem
from ehkafka.checks.result import SETTINGS_CODE, Finding, NotMeasured, Problem
from ehkafka.endpoint.broker_errors import EXPLAINING
from ehkafka.endpoint.client import check_client_version
from ehkafka.errors import ConfigurationError, EhkafkaError
from ehkafka.records import moment_of
from ehkafka.records.client_codes import ClientCode
from ehkafka.wording import counted

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import ClusterMetadata  # type: ignore[attr-defined]

    from ehkafka.checks.inspection import Inspection
    from ehkafka.endpoint.entra.token_source import TokenSource

_RENEW = (
    "Make the credential fetch a new one (az login, the managed identity, the client secret's own expiry),"
    " and check that this machine's clock is right."
)
_SETTING = "Correct this setting: the app would not start."
# A request that waits for a connection hears nothing of why there is none: ask in growing slices.
FIRST_SLICE_S = 0.25
_REFUSED_FIX = (
    "The broker did not take the token: check that it is for this namespace (audience), not expired, that"
    " this machine's clock is right, and that the identity has the role Azure Event Hubs Data Receiver."
)
# librdkafka's text for ECONNREFUSED; its code is that of all broken connections.
_REFUSED = "Connection refused"
# What a stamp may be ahead without a word: clocks are kept to this, and tokens are cut to whole seconds.
TOLERANCE_S = 2.0
# The last record of so many partitions is read; one by the newest is enough, and which that is, is unknown.
PARTITIONS_READ = 16
READ_S = 3.0


def settings(inspection: Inspection, _subject: str | None) -> Finding:
    """Lay the properties over one another as the app does, and keep them for the other steps."""
    target = inspection.target
    try:
        check_client_version()
        # An app would make the topics that it lacks there.
        target.endpoint.prepare_topics(target.topics)
        inspection.use(target.client_properties())
    except EhkafkaError as error:
        raise Problem(str(error), _SETTING, exit_code=error.exit_code) from None
    version = confluent_kafka.version()
    return Finding(
        f"{len(inspection.properties)} properties are set for {target.endpoint.name}; "
        f"confluent-kafka {version}",
        {"security_protocol": inspection.protocol, "confluent_kafka": str(version)},
    )


def token(inspection: Inspection, _subject: str | None) -> Finding:
    """Ask for a token as librdkafka would, and see whether it is still good.

    Before the client is opened, because a client whose callback fails holds its constructor up for 10 s. Of
    the token itself nothing is kept but its times and its audience.
    """
    callback = inspection.properties.get("oauth_cb")
    if (tokens := inspection.target.endpoint.tokens) is not None:
        _sign_in(inspection, tokens)
    if not callable(callback):
        raise NotMeasured("librdkafka fetches the token by itself; the step auth shows whether that works")
    text, expires = _asked(inspection, callback)
    inspection.cleaner.learn_secret(text)
    claims = _claims(text)
    inspection.token_issued_at = _moment(claims.get("iat"))
    # What the broker sees. What the client sees counts too: librdkafka takes none that is over.
    ends = _moment(claims.get("exp")) or expires
    now = datetime.now(UTC)
    left_s = ((expires if expires < now else ends) - now).total_seconds()
    facts = {"expires": ends.isoformat(), "audience": claims.get("aud")}
    if left_s <= 0:
        raise Problem(
            f"the token has expired, {-left_s:.0f} s ago (at {ends:%Y-%m-%d %H:%M:%S} UTC)",
            _RENEW,
            facts=facts,
        )
    audience = f" for {claims['aud']}" if claims.get("aud") else ""
    return Finding(f"a token{audience}, good for {left_s:.0f} s", facts)


def _sign_in(inspection: Inspection, tokens: TokenSource) -> None:
    """Have the credential asked now: its callback alone would answer with what it has."""
    try:
        tokens.sign_in(inspection.remaining_s)
    except EhkafkaError as error:
        raise Problem(str(error), _RENEW) from None


def _asked(inspection: Inspection, callback: Any) -> tuple[str, datetime]:
    try:
        answer = callback(inspection.properties.get("sasl.oauthbearer.config", ""))
    except EhkafkaError as error:
        raise Problem(f"no token: {error}", _RENEW) from None
    except Exception as error:  # the class alone: its text may repeat a secret that we do not know
        raise Problem(
            f"oauth_cb raised {type(error).__name__}",
            "Call oauth_cb yourself to see the cause: it must return (token, expiry in seconds since 1970).",
        ) from None
    if isinstance(answer, tuple) and len(answer) >= 2:
        text, expires = answer[:2]
        moment = _moment(expires)
        if isinstance(text, str) and text and moment is not None:
            return text, moment
    raise Problem(
        f"oauth_cb returned {type(answer).__name__}, not (token, expiry)",
        "Return a tuple: the text of the token, and its expiry in seconds since 1970.",
    )


def _claims(text: str) -> dict[str, Any]:
    """Return what a JWT says, unverified; nothing for a token of another form."""
    parts = text.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _moment(seconds: object) -> datetime | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def auth(inspection: Inspection, _subject: str | None, *, refused_s: float = inf) -> Finding:
    """Open the client and ask for the cluster's metadata.

    After `refused_s` seconds in which every address refused the connection, it fails before the step's time
    is over; a broker that starts may refuse connections for some seconds.
    """
    try:
        consumer = inspection.consumer()
    except ConfigurationError as error:
        raise Problem(str(error), _SETTING, exit_code=SETTINGS_CODE) from None
    began_s = time.monotonic()
    inspection.cluster = cluster = _metadata(inspection, consumer, began_s + refused_s)
    took_s = time.monotonic() - began_s
    how = f"{inspection.mechanism} accepted" if inspection.mechanism else "the broker requires no login"
    brokers, topics = len(cluster.brokers), len(cluster.topics)
    return Finding(
        f"{how}; the client sees {counted(brokers, 'broker')} and {counted(topics, 'topic')}",
        {
            "mechanism": inspection.mechanism,
            "brokers": brokers,
            "topics": topics,
            "answered_s": round(took_s, 4),
        },
    )


def _metadata(inspection: Inspection, consumer: Consumer, refused_until_s: float) -> ClusterMetadata:
    """Ask until the step's time is up, or a reason is heard that waiting does not fix."""
    slice_s = FIRST_SLICE_S
    while True:
        try:
            found: ClusterMetadata = consumer.list_topics(timeout=min(slice_s, inspection.remaining_s))
        except KafkaException as error:
            refusal = error.args[0]
        else:
            return found
        inspection.listen(consumer, 0.0)
        reason = _reason(inspection.client_errors)
        # With several addresses another one may still do.
        is_known = reason is not None and len(inspection.addresses) == 1
        is_refused = time.monotonic() >= refused_until_s and _all_refuse(inspection)
        if inspection.is_over or is_known or is_refused:
            raise _refused(inspection, reason, refusal)
        slice_s *= 2


def _reason(errors: list[KafkaError]) -> KafkaError | None:
    return next((error for error in errors if error.code() in EXPLAINING), None)


def _all_refuse(inspection: Inspection) -> bool:
    """Tell whether nothing was heard but that each address refused a connection."""
    broken = [error for error in inspection.client_errors if error.code() != ClientCode.ALL_BROKERS_DOWN]
    refused = [error.str() for error in broken if _REFUSED in error.str()]
    # `host:port/bootstrap: Connect to … failed: Connection refused (…)`, each address once in half a minute.
    addresses = {text.partition("/bootstrap")[0] for text in refused}
    return len(refused) == len(broken) and len(addresses) >= len(inspection.addresses)


def _refused(inspection: Inspection, reason: KafkaError | None, refusal: KafkaError) -> Problem:
    if reason is None and not inspection.is_kafka_there:
        return _unreachable(inspection, refusal)
    if reason is None:
        return Problem(
            f"a Kafka broker listens at this address, but does not answer this client: {refusal.name()} "
            f"({refusal.str()})",
            f"Check security.protocol={inspection.protocol} and "
            f"sasl.mechanisms={inspection.mechanism or 'none'}: the broker may need other values.",
        )
    what = f"{inspection.mechanism} was refused" if inspection.mechanism else "the client cannot connect"
    found = problem(what, reason)
    if inspection.mechanism == "OAUTHBEARER" and reason.code() == ClientCode.AUTHENTICATION:
        found.fix = _REFUSED_FIX
    return found


def _unreachable(inspection: Inspection, refusal: KafkaError) -> Problem:
    # The client reports the reason; the request itself only times out.
    broken = (error for error in inspection.client_errors if error.code() == ClientCode.TRANSPORT)
    shown = next(broken, refusal)
    addresses = ", ".join(inspection.addresses)
    return Problem(
        f"{addresses} cannot be reached, or does not answer this client: {shown.name()} ({shown.str()})",
        "To see which step of the connection fails, run: ehkafka check",
    )


def clock(inspection: Inspection, _subject: str | None) -> Finding:
    """Compare our clock with stamps that others made.

    Kafka has no request that tells a broker's time. But a stamp that the broker or the issuer of tokens made
    cannot lie in our future: where one does, our clock is behind. A recent one also bounds how far ahead it
    can be. Whether the certificate is valid now is the step `tls`'s to say.
    """
    stamps = {
        "the newest record": _newest_record(inspection),
        "the token": inspection.token_issued_at,
    }
    known = {who: moment for who, moment in stamps.items() if moment is not None}
    if not known:
        raise NotMeasured(
            "brokers do not report their time, and no record with a broker's timestamp was found"
        )
    now = datetime.now(UTC)
    ages = {who: (now - moment).total_seconds() for who, moment in known.items()}
    who, age_s = min(ages.items(), key=lambda item: item[1])
    facts = {"newest_stamp_age_s": round(age_s, 3)}
    if age_s < -TOLERANCE_S:
        raise Problem(
            f"this machine's clock is at least {-age_s:.0f} s behind: {who} has a later time",
            "Set the clock by NTP: with a wrong clock, start times, tokens and ages are wrong.",
            facts=facts,
        )
    return Finding(
        f"this machine's clock is at most {max(0.0, age_s):.0f} s ahead, according to {who}; a clock that is "
        f"behind cannot be detected",
        facts,
    )


def _newest_record(inspection: Inspection) -> datetime | None:
    """Return the newest stamp among last records, if brokers stamp them on this topic."""
    ends = [
        KafkaPartition(*partition, log.end - 1)
        for partition, log in inspection.logs.items()
        if log.end > log.start
    ]
    del ends[PARTITIONS_READ:]
    if not ends:
        return None
    consumer = inspection.consumer()
    stamps: list[int] = []
    unread = {(one.topic, one.partition) for one in ends}
    # Assigned by hand, without a subscription: this joins nothing and commits nothing.
    consumer.assign(ends)
    give_up_s = time.monotonic() + min(READ_S, inspection.remaining_s)
    try:
        while unread and time.monotonic() < give_up_s:
            # One at a time: a batch would wait for records that are not to come.
            for message in consumer.consume(1, 0.1):
                kind, milliseconds = message.timestamp()
                if message.error() is None and kind == TIMESTAMP_LOG_APPEND_TIME:
                    stamps.append(milliseconds)
                unread.discard((message.topic(), message.partition()))
    finally:
        consumer.unassign()
    return moment_of(TIMESTAMP_LOG_APPEND_TIME, max(stamps)) if stamps else None
