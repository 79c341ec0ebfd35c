"""Strikes out of a text from elsewhere what looks like a secret. Pure."""

from __future__ import annotations

import re

from ehkafka.wording.line import printable

STRUCK = "***"
TEXT_CHARACTERS_MAX = 1_000

# `&` ends a value only where the next name of a query follows it.
KEY = re.compile(
    r"((?:SharedAccessKey|AccountKey|password|\bsig)\s*=\s*)((?:[^;&\s\"']|&(?!\w+=))+)", re.IGNORECASE
)
_PASSWORD_IN_URL = re.compile(r"(://[^\s/@:]*:)[^\s/@]+(?=@)")
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


def struck(text: str) -> str:
    """Return the text without keys, passwords and tokens."""
    text = _PASSWORD_IN_URL.sub(rf"\1{STRUCK}", KEY.sub(rf"\1{STRUCK}", text))
    return _TOKEN.sub(STRUCK, text)


def one_line(text: str) -> str:
    """Return the text in one line, without what looks like a secret; of a long one both ends.

    What happened is at its begin, what to do at its end; what is long was given from outside.
    """
    line = printable(" ".join(struck(text).split()))
    half = TEXT_CHARACTERS_MAX // 2
    return line if len(line) <= TEXT_CHARACTERS_MAX else f"{line[:half]} … {line[-half:]}"
