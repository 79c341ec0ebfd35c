"""Hostile texts: in commits' metadata, in connection strings, in other settings and names of others."""

from __future__ import annotations

import base64
import copy
import functools
import json
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ehkafka.checkpoints.stores.container import Container
from ehkafka.endpoint.entra.namespace import EntraNamespace
from ehkafka.endpoint.keys.connection_string import ConnectionString
from ehkafka.errors import ConfigurationError
from ehkafka.progress.metadata import (
    CLAIM,
    MOVED,
    ON_SPARK,
    CommitMetadata,
    LogFacts,
    Unusable,
    decode,
    encode,
    moved,
    without_facts,
)
from ehkafka.progress.ranges import SavedRanges
from ehkafka.run.steer.names import head_name, parse_head, parse_partition, partition_name
from ehkafka.spark.source.offsets import read as read_stream_offset
from tests.kit.fuzz.target import Target, any_text, any_value, damaged

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_OFFSET_MAX = 2**63 - 1
_KEY_WINDOW = 6


class Text(NamedTuple):
    """The metadata of a commit of `next_offset`, and what it says. None: whatever is within its bounds.

    One that `is_damaged` says the same, or nothing.
    """

    text: str
    next_offset: int
    says: CommitMetadata | None = None
    is_damaged: bool = False


def _commit_text(rng: random.Random) -> Text:
    next_offset = rng.choice((1, 300, 2**40, _OFFSET_MAX - 10_000)) + rng.randrange(100)
    match rng.randrange(5):
        case 0:
            word = rng.choice(("ehk2.", f"{MOVED}.", CLAIM, ON_SPARK, "ehk3.", ""))
            return Text(word + any_text(rng, 200), next_offset)
        case 1:
            return _forged(rng)
    facts = LogFacts(
        rng.choice((None, rng.randint(1, 2**21 - 1))),
        rng.choice((None, rng.randbytes(16))),
        rng.choice((None, (next_offset - 1, rng.randrange(2**48)))),
        rng.choice((None, "reset-1")),
    )
    edges = sorted(rng.sample(range(next_offset + 1, next_offset + 5_000), 2 * rng.randrange(1, 40)))
    ranges = tuple(zip(edges[::2], edges[1::2], strict=True))
    text = encode(next_offset, facts, ranges, 7, 4_000).text or ""
    says = CommitMetadata(facts, SavedRanges(ranges, 7))
    if rng.random() < 0.3:
        return Text(text, next_offset, says)
    if rng.random() < 0.2:
        return Text(moved(next_offset, facts), next_offset, CommitMetadata(facts, drops_ranges=True))
    spoilt = damaged(rng, text.encode(), b".~!0").decode("latin-1")
    return Text(spoilt, next_offset, says, is_damaged=True)


def _forged(rng: random.Random) -> Text:
    """Return what may be written by who computes the checksum: parts of the right size, and any values."""
    known, next_offset = rng.randrange(64), rng.randrange(1, 100)
    sizes = (1, 16, 7, 3, rng.randrange(20))
    parts = [rng.randbytes(size) for bit, size in enumerate(sizes) if known >> bit & 1]
    signed = bytes([known, next_offset]) + b"".join(parts)[: rng.choice((99, 99, rng.randrange(40)))]
    text = base64.b85encode(signed + zlib.crc32(signed).to_bytes(4)).decode()
    return Text(f"ehk2.{text}", next_offset)


def _judge_commit_text(given: Text) -> bool:
    text, next_offset, says, is_damaged = given
    without_facts(text)
    found = decode(text, next_offset)
    if says is not None and not (is_damaged and isinstance(found, Unusable)):
        assert found == says, f"says {found}"
    if isinstance(found, Unusable):
        return False
    first, topic_id, witness, reset = found.facts
    assert first is None or first > 0
    assert topic_id is None or len(topic_id) == 16
    assert witness is None or (0 <= witness[0] < next_offset and witness[1] >= 0)
    assert reset is None or (reset.isprintable() and 0 < len(reset) <= 64)
    below = next_offset
    for begin, end in found.ranges.finished:
        assert below <= begin < end, f"finished ranges {found.ranges.finished}"
        below = end
    return True


def _connection_string(rng: random.Random) -> tuple[str, str]:
    """Return one with a mistake that people make, and its key. No piece of a key in the hub's place."""
    key = base64.b64encode(rng.randbytes(32)).decode()
    parts = ["Endpoint=sb://ns.example.test:9093/", "SharedAccessKeyName=Root", f"SharedAccessKey={key}"]
    parts.append("EntityPath=hub")
    rng.shuffle(parts)
    at, other = rng.randrange(4), rng.randrange(4)
    match rng.randrange(8):
        case 0:
            (name, _, value), (name2, _, value2) = parts[at].partition("="), parts[other].partition("=")
            parts[at], parts[other] = f"{name}={value2}", f"{name2}={value}"
            if "EntityPath" in (name, name2) and key in (value, value2):
                return ";".join(parts), key  # a piece of it would be a hub's name like any other
        case 1:
            parts[at] = parts[at].partition("=")[2]
        case 2:
            parts[at : at + 2] = ["".join(parts[at : at + 2])]
        case 3:
            parts[at] = parts[at].replace("=", ":").replace("+", " ")
        case 4:
            parts.insert(other, parts[at])
        case 5:
            parts[at] = f"'{parts[at]}"
        case 6:
            parts[at] = rng.choice((str.upper, str.lower, str.title))(parts[at].partition("=")[0]) + (
                "=" + parts[at].partition("=")[2]
            )
    text = ";".join(parts)
    place = rng.randrange(len(text))
    middle = rng.choice(("", text[place] * 2, rng.choice("=;: /@#?[]\"'\n\0x9é\ud800") + text[place]))
    return (text, key) if rng.random() < 0.5 else (text[:place] + middle + text[place + 1 :], key)


@functools.cache
def _words_of_errors() -> str:
    try:
        ConnectionString.parse("")
    except ConfigurationError as error:
        return f"{error} {error!r} =".lower()
    raise AssertionError("an empty connection string is accepted")


def _judge_connection_string(given: tuple[str, str]) -> bool:
    text, key = given
    shown: list[object] = []
    with suppress(ConfigurationError):
        try:
            shown.append(ConnectionString.parse(text))
        except ConfigurationError as error:
            shown += [error, error.__context__, error.__cause__]
            raise
    all_shown = " ".join(f"{one} {one!r} {copy.copy(one)!r}" for one in shown).lower()
    for begin in range(len(key) - _KEY_WINDOW + 1):
        piece = key[begin : begin + _KEY_WINDOW].lower()
        # Six letters of a key may be those of a word that each such error has.
        assert piece not in all_shown or piece in _words_of_errors(), "shows a part of the key"
    return isinstance(shown[0], ConnectionString)


# The second is looked up when it is called: a test replaces it.
_READERS: dict[str, Callable[[str], object]] = {
    "namespace": EntraNamespace.parse,
    "container": lambda text: Container.parse(text),  # noqa: PLW0108
    "stream offset": read_stream_offset,
    "partition": parse_partition,
    "head": parse_head,
}


def _setting(rng: random.Random) -> tuple[str, str]:
    kind = rng.choice(list(_READERS))
    whole = {
        "namespace": "sb://home.servicebus.windows.net:9093/",
        "container": "https://home.blob.core.windows.net/checkpoints?sv=1&sig=abc",
        "stream offset": json.dumps({"t": {"0": 5, "1": 2**40}, "u": {"3": any_value(rng)}}),
        "partition": "readings/7",
        "head": "readings/7@12",
    }[kind]
    if rng.random() < 0.2:
        return kind, any_text(rng, 60)
    return kind, damaged(rng, whole.encode(), b'/:@."[]{}').decode("utf-8", "surrogateescape")


def _judge_setting(given: tuple[str, str]) -> bool:
    kind, text = given
    try:
        found: Any = _READERS[kind](text)
    except ConfigurationError:
        return False
    if kind == "head" and found is not None:
        assert parse_head(head_name(*found)) == found
    if kind == "partition" and found is not None:
        assert parse_partition(partition_name(found)) == found
    return found is not None


COMMIT_METADATA: Final = Target("texts that go with commits", _commit_text, _judge_commit_text, 3_000)
CONNECTION_STRINGS: Final = Target(
    "connection strings",
    _connection_string, _judge_connection_string, 3_000,
)  # fmt: skip
SETTINGS: Final = Target("names, keys and Spark's offsets", _setting, _judge_setting, 5_000)
