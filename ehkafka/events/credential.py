"""What becomes of keys and tokens. No event holds one."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from ehkafka.events.event import Event


@dataclass(frozen=True, slots=True)
class CredentialRotated(Event):
    """A changed key was taken up: the client uses it for its next authentication. Never holds the key."""

    source: str


@dataclass(frozen=True, slots=True)
class CredentialUnusable(Event):
    """Reading the credential again gave nothing usable; the old one stays in use.

    Reported when it begins, when the reason changes, and about twice a minute while it lasts.
    """

    level: ClassVar[int] = logging.WARNING
    source: str
    reason: str
    # In a row.
    failures: int


@dataclass(frozen=True, slots=True)
class TokenRefreshed(Event):
    """A new Entra ID token is in use. `failures` is how many attempts in a row had failed before it."""

    level: ClassVar[int] = logging.DEBUG
    endpoint: str
    life_s: float
    took_s: float
    failures: int


@dataclass(frozen=True, slots=True)
class TokenRefreshFailed(Event):
    """The credential gave no usable token. `valid_s` is what the one in use has left; 0: none is valid."""

    level: ClassVar[int] = logging.WARNING
    endpoint: str
    # In a row.
    failures: int
    error: str
    valid_s: float
    retry_s: float
