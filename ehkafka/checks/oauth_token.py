"""Step `token`: whether the callback that the client would ask gives a token that is still good.

Asked before the client is opened, because a client whose callback fails holds its constructor up for 10 s.
Of the token itself nothing is kept but its times and its audience.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from ehkafka.checks.finding import Finding, NotMeasured, Trouble
from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from ehkafka.checks.inspection import Inspection
    from ehkafka.endpoint.entra.token_source import TokenSource

_RENEW = (
    "Make the credential fetch a new one (az login, the managed identity, the client secret's own expiry),"
    " and check that this machine's clock is right."
)


def look(inspection: Inspection, _subject: str | None) -> Finding:
    """Ask for a token as librdkafka would."""
    callback = inspection.properties.get("oauth_cb")
    if (tokens := inspection.target.endpoint.tokens) is not None:
        _sign_in(inspection, tokens)
    if not callable(callback):
        raise NotMeasured("librdkafka fetches it by itself; the step auth tells")
    token, expires = _asked(inspection, callback)
    inspection.cleaner.learn_secret(token)
    claims = _claims(token)
    inspection.token_issued_at = _moment(claims.get("iat"))
    # What the broker sees. What the client is told counts too: librdkafka takes none that is over.
    ends = _moment(claims.get("exp")) or expires
    now = datetime.now(UTC)
    left_s = ((expires if expires < now else ends) - now).total_seconds()
    facts = {"expires": ends.isoformat(), "audience": claims.get("aud")}
    if left_s <= 0:
        raise Trouble(
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
        raise Trouble(str(error), _RENEW) from None


def _asked(inspection: Inspection, callback: Any) -> tuple[str, datetime]:
    try:
        answer = callback(inspection.properties.get("sasl.oauthbearer.config", ""))
    except EhkafkaError as error:
        raise Trouble(f"no token: {error}", _RENEW) from None
    except Exception as error:  # the class alone: its text may repeat a secret that we do not know
        raise Trouble(
            f"oauth_cb raised {type(error).__name__}",
            "Call it by hand to see why; it must return (token, expiry in seconds since 1970).",
        ) from None
    if isinstance(answer, tuple) and len(answer) >= 2:
        token, expires = answer[:2]
        moment = _moment(expires)
        if isinstance(token, str) and token and moment is not None:
            return token, moment
    raise Trouble(
        f"oauth_cb returned {type(answer).__name__}, not (token, expiry)",
        "Return a tuple of the token's text and its expiry in seconds since 1970.",
    )


def _claims(token: str) -> dict[str, Any]:
    """Return what a JWT says, unverified; nothing for a token of another form."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _moment(seconds: Any) -> datetime | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
