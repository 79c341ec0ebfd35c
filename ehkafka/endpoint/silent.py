"""A logger for clients that look at something: what is wrong they tell by their answers and callbacks."""

from __future__ import annotations

from typing import Final


class _Silent:
    """What confluent-kafka takes for a logger."""

    def log(self, _level: int, _text: str, *_arguments: object) -> None:
        """Drop one line."""


SILENT: Final = _Silent()
