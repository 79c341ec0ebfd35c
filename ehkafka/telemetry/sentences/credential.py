"""How the events of keys and tokens read."""

from __future__ import annotations

from ehkafka.events.credential import (
    CredentialRotated,
    CredentialUnusable,
    TokenRefreshed,
    TokenRefreshFailed,
)
from ehkafka.telemetry.sentences.dispatch import sentence
from ehkafka.telemetry.wording import ended, text
from ehkafka.wording import seconds


@sentence.register
def _(event: CredentialRotated) -> str:
    return f"Took up a new key from {text(event.source)}; it is used at the next authentication."


@sentence.register
def _(event: CredentialUnusable) -> str:
    reads = "a failed read" if event.failures == 1 else f"{event.failures} failed reads in a row"
    return (
        f"No new key, and the old one stays in use, after {reads}: "
        f"{ended(event.reason)} Fix it before the old key is withdrawn."
    )


@sentence.register
def _(event: TokenRefreshed) -> str:
    after = f", after {event.failures} attempts that failed" if event.failures else ""
    return (
        f"A new token for {text(event.endpoint)} came in {seconds(event.took_s)}, valid for "
        f"{event.life_s:.0f} s{after}."
    )


@sentence.register
def _(event: TokenRefreshFailed) -> str:
    attempts = "a failed attempt" if event.failures == 1 else f"{event.failures} failed attempts in a row"
    state = (
        f"The one in use is valid for another {event.valid_s:.0f} s, so all goes on"
        if event.valid_s > 0
        else "None is valid now, so the broker refuses the client until one comes"
    )
    return (
        f"No new token for {text(event.endpoint)} after {attempts}: "
        f"{ended(event.error)} {state}; the next attempt is in {seconds(event.retry_s)}."
    )
