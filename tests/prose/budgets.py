"""How many of the words each room and each page still has; the counts only fall.

`python -m tests.prose.budgets` lowers `budgets.json` to what is there now and raises nothing. A room or page
without an entry has none.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from functools import cache
from pathlib import Path

from tests.prose.rules import Rule, hits_of
from tests.prose.texts import Text, all_texts

FILE = Path(__file__).with_name("budgets.json")


@cache
def found() -> dict[str, list[tuple[Text, str, Rule]]]:
    """Return by room each text with a word of the rules, the word and its rule."""
    rooms: dict[str, list[tuple[Text, str, Rule]]] = {}
    for text in all_texts():
        for word, rule in hits_of(text.text):
            rooms.setdefault(text.room, []).append((text, word, rule))
    return rooms


def budgets() -> dict[str, int]:
    """Return what the file permits."""
    permitted: dict[str, int] = json.loads(FILE.read_text())
    return permitted


def slack_of(budget: int) -> int:
    """Return how far below its budget a room may be before the budget has to be lowered."""
    return max(5, budget // 20)


def lower() -> int:
    """Write what is there now, where it is less; return 1 if a room has more than it may."""
    counts = Counter({room: len(hits) for room, hits in found().items()})
    permitted = budgets()
    lowered = {room: min(budget, counts[room]) for room, budget in permitted.items()}
    FILE.write_text(json.dumps(dict(sorted(lowered.items())), indent=1) + "\n")
    above = {room: counts[room] for room in counts if counts[room] > permitted.get(room, 0)}
    for room, count in sorted(above.items()):
        sys.stdout.write(f"{room}: {count}, {permitted.get(room, 0)} permitted\n")
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(lower())
