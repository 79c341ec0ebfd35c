"""Hides names in a report on request: of the namespace, the topic, the container, addresses. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _live.given import Given
    from _live.ledger import Ledger

_IP = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\b(?:[0-9a-f]{1,4}:){3,7}[0-9a-f]{1,4}\b", re.IGNORECASE)


class Names:
    """Replaces names by words in angle brackets."""

    def __init__(self, given: Given, ledger: Ledger) -> None:
        found = {given.namespace: "<namespace>", given.namespace.partition(".")[0]: "<namespace>"}
        # Within the names of topics and groups.
        self._run = ledger.run
        if given.own_topic:
            found[given.own_topic] = "<topic>"
        if given.client_id:
            found[given.client_id] = "<identity>"
        if name := getattr(given.mirror, "name", ""):
            found[name] = "<container>"
            account = name.partition("://")[2].partition(".")[0]
            found |= {account: "<account>"} if account else {}
        # The longest first: one may be part of another.
        self._found = dict(sorted(found.items(), key=lambda item: -len(item[0])))

    def text(self, text: str) -> str:
        """Return the text without the names."""
        text = _IP.sub("<address>", text).replace(self._run, "<run>")
        for name, word in self._found.items():
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", word, text, flags=re.IGNORECASE)
        return text

    def value(self, value: Any) -> Any:
        """Return the same of every text within mappings and sequences."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value
