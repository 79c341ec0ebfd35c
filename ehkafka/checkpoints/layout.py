"""The names of blobs, as the current SDKs of Event Hubs have them, and of the owners' blobs.

Pure. Names are in lower case, because the SDKs write them so and find no others:

| blob | holds |
|---|---|
| `{namespace}/{hub}/{group}/checkpoint/{partition}` | the mirror of one partition's commit |
| `{namespace}/{hub}/{group}/ownership/{partition}` | an SDK's lease: read, never written |
| `{namespace}/{hub}/{group}/ehkafka/owner/{partition}` | our owner: at assign, at release, every 30 s |

`namespace` is the host name of the Event Hubs namespace, or what stands in its place; `hub` is the topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ehkafka.errors import ConfigurationError

Kind = Literal["checkpoint", "ownership", "ehkafka/owner"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# A limit of Azure Blob Storage.
NAME_CHARACTERS_MAX = 1024


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one group on one namespace; a topic's blobs lie in it by kind."""

    namespace: str
    group: str

    def __post_init__(self) -> None:
        """Refuse names that would end up in another folder. Raises `ConfigurationError`."""
        for what, name in (("namespace", self.namespace), ("group", self.group)):
            _check(what, name)

    def prefix(self, topic: str, kind: Kind) -> str:
        """Return what the names of a topic's blobs of that kind begin with, the last slash included."""
        _check("topic", topic)
        return f"{self.namespace}/{topic}/{self.group}/{kind}/".lower()

    def name(self, topic: str, partition: int, kind: Kind = "checkpoint") -> str:
        """Return the name of a partition's blob."""
        name = f"{self.prefix(topic, kind)}{partition}"
        if len(name) > NAME_CHARACTERS_MAX:
            raise ConfigurationError(
                f"The name of the blob of {topic}[{partition}] would have {len(name)} characters, but Blob "
                f"Storage allows {NAME_CHARACTERS_MAX}. Choose a shorter group name."
            )
        return name


@dataclass(frozen=True, slots=True)
class BlobName:
    """What a blob's name says, all in lower case."""

    namespace: str
    topic: str
    group: str
    kind: Kind
    partition: int


def place_of(name: str) -> BlobName | None:
    """Read a blob's name; None for one of another layout."""
    for kind in KINDS:
        start, found, number = name.rpartition(f"/{kind}/")
        parts = start.split("/")
        if found and len(parts) == 3 and all(parts) and _is_partition(number):
            namespace, topic, group = parts
            return BlobName(namespace, topic, group, kind, int(number))
    return None


def namespace_of(endpoint_name: str) -> str:
    """Return what stands for a broker in names: its endpoint's name, without what no folder may have."""
    return endpoint_name.replace("/", "-").replace(" ", "-")


def _is_partition(text: str) -> bool:
    # `isdecimal` alone takes the digits of every script.
    return text.isascii() and text.isdecimal() and len(text) <= 10


def _check(what: str, name: str) -> None:
    if not name or "/" in name or name.strip(".") == "":
        raise ConfigurationError(
            f"The mirror cannot keep a {what} with the name {name!r}, because the name becomes a folder in "
            f"the store: give a name that is not empty, has no slash, and does not consist of dots."
        )
