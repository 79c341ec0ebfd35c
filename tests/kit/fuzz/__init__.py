"""Hostile input for everything that decodes what others have written: invented from a seed, then judged."""

from __future__ import annotations

from typing import Final

from tests.kit.fuzz import checkpoints, headers, letters, payloads, requests, texts, wire
from tests.kit.fuzz.target import Failure, Target

TARGETS: Final[dict[str, Target]] = {
    "headers": headers.TARGET,
    "payloads": payloads.TARGET,
    "commit-metadata": texts.COMMIT_METADATA,
    "checkpoints": checkpoints.TARGET,
    "connection-strings": texts.CONNECTION_STRINGS,
    "settings": texts.SETTINGS,
    "dead-letters": letters.TARGET,
    "requests": requests.TARGET,
    "members-wire": wire.TARGET,
}

__all__ = ["TARGETS", "Failure", "Target"]
