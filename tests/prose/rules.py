"""Words and phrases that a reader stumbles over, each with better ones and a sentence that has it.

A sentence has a concrete noun as its subject and an everyday verb, and it uses the words of Kafka's users.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """What not to write, what to write instead, and an example of the first."""

    pattern: re.Pattern[str]
    better: str
    example: str


def _rule(words: str, better: str, example: str) -> Rule:
    return Rule(re.compile(rf"(?<![\w`/.-])(?:{words})(?![\w`])", re.IGNORECASE), better, example)


RULES = (
    # Our own words for things that have a usual name.
    _rule(r"(?<!dead )(?<!dead-)letters?", "dead letter", "The letter is in orders.dead"),
    _rule(r"parked|held|awaited", "waiting for a retry; on hold; waiting for your answer", "It is held"),
    _rule(r"watermarks?", "commit position", "The watermark moves"),
    _rule(r"heads?", "oldest unfinished record", "The head of its lane"),
    _rule(r"chunks?", "queue, or leave it out", "It runs in chunks"),
    _rule(r"outcomes?", "result", "A record without an outcome"),
    _rule(r"stale|late outcomes?", "ignored: the partition was reassigned", "A stale result"),
    _rule(r"settle[sd]?|settling", "finish, or commit", "The lane is settled"),
    _rule(r"lends?|lent|lending", "hand out, assigned", "Records that are lent to a process"),
    _rule(r"trials?", "isolated retry", "The trial of a refused output"),
    _rule(r"finished above", "finished out of order", "What is finished above the commit"),
    _rule(r"records? returned|returned to the next", "left for the next owner", "900 records returned"),
    _rule(r"in line", "queued", "Records of a key in line"),
    _rule(r"made anew|made again|a new log", "recreated topic", "A topic that was made anew"),
    # Nobody in particular as the subject.
    _rule(r"nobody|somebody|anybody|whoever", "a named subject, or the passive", "Nobody reads it"),
    _rule(
        r"(?-i:(?<=\. )Who|^Who)(?= (?!\w+ \w+\?))",
        "If you …, or a named subject",
        "Who needs both takes both",
    ),
    _rule(r"what (?:was received|came|comes)", "received records", "What was received is finished"),
    # Verbs and phrases of another language.
    _rule(r"besides?", "compared with; in addition to; next to", "Beside its log it has a page"),
    _rule(r"says?|said", "contains, means, shows", "The commit says what is finished"),
    _rule(r"stands?(?!-)|stood", "is, is in", "It stands in the header"),
    _rule(r"goes on|go on|went on|going on", "continues, resumes", "The other keys go on"),
    _rule(r"on (?:its|their|the) way", "sent, not yet acknowledged", "A request on its way"),
    _rule(r"where there (?:is|are) none", "if none exists", "Where there is none, it begins"),
    _rule(r"as (?:they|it) (?:came|comes?)", "in the order received; unchanged", "Records as they came"),
    _rule(
        r"(?:is|are|was|were) not taken|takes? (?:all|no other|none)", "is not supported", "It is not taken"
    ),
    _rule(r"asked for by", "requested by", "A commit that was asked for by a program"),
    _rule(r"(?:not |is )advised(?: against)?", "not recommended", "It is not advised"),
    _rule(r"alone", "only", "Premium alone has it"),
    _rule(r"but for", "except", "All but for the first"),
    _rule(r"g(?:a|i)ve[sn]? (?:it |them )?up", "failed and was closed; stopped", "The producer was given up"),
    _rule(r"for (?:good|ever)", "permanently, without end", "It waits for ever"),
    _rule(r"at the most", "up to", "25 s at the most"),
    _rule(r"from [\d.]+ on", "… or newer", "Spark from 4.2 on"),
    _rule(r"belongs? into", "belongs in; run in", "It belongs into a process"),
    _rule(r"the begin", "the beginning", "At the begin of the values"),
    _rule(r"a hand on|by hand", "manage, act on", "Keys by hand"),
    _rule(r"since (?:\d+ |four |some |many )\w+", "for … minutes", "Held since 4 minutes"),
    _rule(r"twice is once", "repeating it has no effect", "Twice is once"),
    _rule(
        r"goes the way|the way to the broker",
        "tests each step of the connection",
        "It goes the way step by step",
    ),
    _rule(r"has the token|who has", "requires the token", "Who has the token may"),
    _rule(
        r"gives? (?:no )?(?:producer )?ids", "supports producer IDs", "A broker that gives no producer ids"
    ),
)


def hits_of(text: str) -> list[tuple[str, Rule]]:
    """Return what a text has of them, each word with its rule."""
    return [(found[0], rule) for rule in RULES for found in rule.pattern.finditer(text)]
