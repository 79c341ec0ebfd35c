"""The colours of `ehkafka top`: those of the page."""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

DARK: Final = Theme(
    name="ehkafka-dark",
    primary="#7cc0b6",
    accent="#7cc0b6",
    error="#ef7d63",
    warning="#e3b36f",
    success="#7cc0b6",
    foreground="#e7ebe6",
    background="#131a1b",
    surface="#1b2425",
    panel="#2a3536",
    dark=True,
)
LIGHT: Final = Theme(
    name="ehkafka-light",
    primary="#2f6b66",
    accent="#2f6b66",
    error="#b93f28",
    warning="#8a5a10",
    success="#2f6b66",
    foreground="#1f2d2c",
    background="#f5f4ef",
    surface="#ffffff",
    panel="#e3e1d8",
    dark=False,
)
