"""Makes text from elsewhere safe to show: strikes secrets out and escapes what steers a terminal.

Pure. Every text of a result goes through `Cleaner.text`; records that are printed go through `printable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ehkafka.endpoint.properties.names import is_secret
from ehkafka.wording.line import printable
from ehkafka.wording.secrets import KEY, STRUCK, TEXT_CHARACTERS_MAX, struck

# A shorter one would strike out half of the sentence.
SECRET_CHARACTERS_MIN = 4


class Cleaner:
    """Knows the secrets of one endpoint."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def learn(self, properties: Mapping[str, object]) -> None:
        """Strike out the secret values of these properties from now on."""
        for name, value in properties.items():
            # The user name of Event Hubs is the same for all, and no secret.
            if is_secret(name, value) and isinstance(value, str) and value != "$ConnectionString":
                self.learn_secret(value)

    def learn_secret(self, secret: str) -> None:
        """Strike this out from now on, and a key within it."""
        found = {secret, *(match[2] for match in KEY.finditer(secret))}
        self._secrets |= {one for one in found if len(one) >= SECRET_CHARACTERS_MIN}

    def text(self, text: str) -> str:
        """Return the text in one line, without a secret or a control character, shortened."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, STRUCK)
        line = printable(" ".join(struck(text).split()))
        return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:TEXT_CHARACTERS_MAX]} …"

    def facts(self, value: object) -> Any:
        """Return the same of every text within mappings and sequences."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(name)): self.facts(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.facts(item) for item in value]
        return value
