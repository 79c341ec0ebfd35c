"""Events of access keys and tokens. No event contains a key or a token."""

from __future__ import annotations

from logging import DEBUG, WARNING
from typing import TYPE_CHECKING

from ehkafka.events.event import Event, without_numbers
from ehkafka.wording import counted, seconds
from ehkafka.wording.line import ending, plain

if TYPE_CHECKING:
    from collections.abc import Hashable


class CredentialRotated(Event):
    """The app has read a new access key, and uses it for its next authentication."""

    source: str

    def sentence(self) -> str:
        return (
            f"Read a new access key from {plain(self.source)}; the client uses it at its next authentication."
        )


class CredentialUnusable(Event, level=WARNING):
    """The app could not read a usable access key again; the old key stays in use.

    Reported for each read that fails, and once for a read that hangs. Logged about twice a minute.
    """

    source: str
    reason: str
    # In a row.
    failures: int

    def sentence(self) -> str:
        reads = "a failed read" if self.failures == 1 else f"{self.failures} failed reads in a row"
        return (
            f"No new access key after {reads}; the old access key stays in use: "
            f"{ending(self.reason)} Fix the cause before the old access key is revoked."
        )

    def subject(self) -> Hashable:
        return (self.source, without_numbers(self.reason))


class TokenRefreshed(Event, level=DEBUG):
    """A new Entra ID token is in use. `failures`: the number of failed attempts before it, in a row."""

    endpoint: str
    life_s: float
    took_s: float
    failures: int

    def sentence(self) -> str:
        after = f", after {counted(self.failures, 'failed attempt')}" if self.failures else ""
        return (
            f"Got a new token for {plain(self.endpoint)} in {seconds(self.took_s)}, valid for "
            f"{self.life_s:.0f} s{after}."
        )


class TokenRefreshFailed(Event, level=WARNING):
    """The credential gave no usable token. `valid_s`: for how long the current token is valid; 0: expired."""

    endpoint: str
    # In a row.
    failures: int
    error: str
    valid_s: float
    retry_s: float

    def sentence(self) -> str:
        attempts = "a failed attempt" if self.failures == 1 else f"{self.failures} failed attempts in a row"
        state = (
            f"The current token is valid for another {self.valid_s:.0f} s, so the client keeps working"
            if self.valid_s > 0
            else "No token is valid now, so the broker refuses the client"
        )
        return (
            f"No new token for {plain(self.endpoint)} after {attempts}: "
            f"{ending(self.error)} {state}; the next attempt is in {seconds(self.retry_s)}."
        )

    def subject(self) -> Hashable:
        # That the token in use expired meanwhile is news.
        return (self.endpoint, self.valid_s > 0)
