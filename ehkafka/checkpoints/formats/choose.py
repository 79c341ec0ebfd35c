"""Picks the checkpoints that are meant out of all that a container holds. Pure.

A container may hold those of several hubs, groups and clients. What is not named is taken only where there
is one choice; else the error lists them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ehkafka.checkpoints.formats.formats import BadBlob, BlobOrigin, Format, FoundBlob, found_in, may_hold
from ehkafka.errors import ConfigurationError
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ehkafka.checkpoints.stores.store import CheckpointStore

_LISTED = 8
BLOBS_MAX = 100_000
"""A container with more is not one of checkpoints alone: name a folder of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFilter:
    """Whose checkpoints; what is None may be anything. Names are compared without regard to case."""

    hub: str
    namespace: str | None = None
    # The hub's own consumer group, which has nothing to do with the Kafka group's name.
    group: str | None = None
    format: Format | None = None
    # What blob names begin with.
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.namespace or 'any namespace'}/{self.hub}/{self.group or 'any group'}"

    def takes(self, origin: BlobOrigin) -> bool:
        """Tell whether these are meant, as far as the blobs' names tell."""
        if self.format is not None and origin.format is not self.format:
            return False
        if origin.format is Format.DAPR:
            return self._takes_dapr(origin.folder)
        if origin.format in (Format.EPH, Format.EPH_PYTHON):
            # A prefix without a separator may stand before the group.
            return self.group is None or origin.folder.casefold().endswith(self.group.casefold())
        return (
            _same(self.hub, origin.hub)
            and _same(self.group, origin.group)
            and (_same(self.namespace, origin.namespace) or self._is_first_label(origin.namespace))
        )

    def _is_first_label(self, namespace: str | None) -> bool:
        return namespace is not None and _same(self.namespace, namespace.partition(".")[0])

    def _takes_dapr(self, folder: str) -> bool:
        start = f"dapr-{self.hub}-{self.group or ''}".casefold()
        name = folder.rpartition("/")[2].casefold()
        return name == start if self.group else name.startswith(start)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The checkpoints of one group of one client, by partition, and what could not be read among them."""

    origin: BlobOrigin
    positions: dict[int, FoundBlob]
    unreadable: tuple[BadBlob, ...]


def read_store(store: CheckpointStore, prefix: str = "") -> Iterator[FoundBlob | BadBlob]:
    """Yield all that a store holds of checkpoints. Raises `StoreError`, `ConfigurationError`."""
    for count, listed in enumerate(store.list_blobs(prefix)):
        if count >= BLOBS_MAX:
            raise ConfigurationError(
                f"{store.name} holds more than {BLOBS_MAX} blobs{f' under {prefix!r}' if prefix else ''}:"
                " name the folder of the checkpoints with --prefix."
            )
        if not may_hold(listed.name):
            continue
        whole = store.read(listed.name)
        if whole is None:
            continue  # deleted since it was listed
        modified_at_ms = whole.modified_at_ms if whole.modified_at_ms is not None else listed.modified_at_ms
        found = found_in(replace(whole, modified_at_ms=modified_at_ms))
        if found is not None:
            yield found


def choose(found: Iterable[FoundBlob | BadBlob], wanted: CheckpointFilter, where: str) -> Chosen:
    """Return the one set that is wanted. Raises `ConfigurationError` for none or several."""
    everything = list(found)
    sets: dict[str, list[FoundBlob | BadBlob]] = {}
    for one in everything:
        if wanted.takes(one.origin):
            sets.setdefault(one.origin.folder, []).append(one)
    if not sets:
        raise ConfigurationError(_none(everything, wanted, where))
    if len(sets) > 1:
        # Our own mirror may lie next to blobs of others; who means it says so.
        others = {folder: members for folder, members in sets.items() if not _is_mirror(members)}
        sets = others if len(others) == 1 else sets
    if len(sets) > 1:
        names = _listed(members[0].origin for members in sets.values())
        raise ConfigurationError(
            f"{where} contains several sets of checkpoints for {wanted}: {names}. None was read. Choose "
            f"one with --from-namespace, --from-group, --format or --prefix."
        )
    (members,) = sets.values()
    return _chosen(members, where)


def _chosen(members: list[FoundBlob | BadBlob], where: str) -> Chosen:
    positions: dict[int, FoundBlob] = {}
    for one in members:
        if not isinstance(one, FoundBlob):
            continue
        if one.partition in positions:
            raise ConfigurationError(
                f"{where} holds two checkpoints of partition {one.partition}:"
                f" {positions[one.partition].blob!r} and {one.blob!r}. Neither was read. Delete the wrong "
                f"one, or name the folder of the right one with --prefix."
            )
        positions[one.partition] = one
    ours = all(one.origin.format is Format.EHKAFKA for one in positions.values())
    origin = members[0].origin
    if origin.format is Format.EHKAFKA and not ours:
        origin = replace(origin, format=Format.SDK)
    unreadable = tuple(one for one in members if isinstance(one, BadBlob))
    return Chosen(origin, dict(sorted(positions.items())), unreadable)


def _is_mirror(members: list[FoundBlob | BadBlob]) -> bool:
    return all(one.origin.format is Format.EHKAFKA for one in members)


def _none(everything: list[FoundBlob | BadBlob], wanted: CheckpointFilter, where: str) -> str:
    form = f" in the format {wanted.format}" if wanted.format is not None else ""
    text = f"{where} holds no checkpoint of {wanted}{form}"
    if wanted.prefix:
        text += f" under {wanted.prefix!r}"
    if not everything:
        return (
            f"{text}, and no checkpoint of another client. Check the name of the container, or name "
            f"another folder with --prefix."
        )
    names = _listed(one.origin for one in everything)
    return (
        f"{ended(text)} This place contains the checkpoints of {names}. Choose with --from-hub, "
        f"--from-namespace, --from-group or --format."
    )


def _listed(origins: Iterable[BlobOrigin]) -> str:
    names = list(dict.fromkeys(map(str, origins)))
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")


def _same(wanted: str | None, given: str | None) -> bool:
    return wanted is None or given is None or wanted.casefold() == given.casefold()
