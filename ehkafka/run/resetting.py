"""Takes a group back to `start`, from outside and before this run joins it: the setting `reset`.

Called by `Runtime` and by the engine on Spark, in the thread that starts the app. A group with members is
refused, since they would go on and commit over it. Without a name a reset is made at each start; one with a
name once: the name stands in the metadata of its commits and of all later ones.

Replicas that start together would each reset. Kafka has no commit that fails after another client's commit.
So a replica that resets under a name first writes a claim into the text of one commit, which moves nothing,
and waits. The last claim wins: only the replica that finds its own claim afterwards resets, and the others
wait until the name is there.
"""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from ehkafka.checks.target import Target
from ehkafka.errors import ConfigurationError, GroupInUseError
from ehkafka.events import GroupReset, GroupWatched
from ehkafka.offsets.group import GroupOffsets
from ehkafka.offsets.moving import UNREPORTED_S, checks, refuse_members
from ehkafka.progress.metadata import CLAIM, claim, facts_of, moved
from ehkafka.records import TopicPartition
from ehkafka.wording import ended

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from ehkafka.endpoint import Endpoint
    from ehkafka.events import Event
    from ehkafka.positions.start import Start
    from ehkafka.settings import Settings

# A claim has to stand so long. Longer than a look and a commit of another one that began before it; a replica
# that sleeps for longer between the two is not kept out.
SETTLE_S = 1.0
CHECK_S = 0.25
# A claim is ignored if its owner has not reset so long after the claim had to stand.
LATE_S = 10.0
# How often other replicas may overwrite a claim before the start fails.
CLAIMS_MAX = 5
_AGAIN = "start again; or start without reset"


class _Commit(NamedTuple):
    """The group's commit for a partition; None if it has none."""

    offset: int | None
    text: str


_Commits = dict[TopicPartition, _Commit]


def reset_group(
    endpoint: Endpoint,
    settings: Settings,
    topics: Collection[str],
    start_of: Callable[[str], Start],
    emit: Callable[[Event], None],
) -> None:
    """Do what the setting `reset` says; nothing where it says nothing.

    Raises `GroupInUseError` for a group with members, `ConfigurationError` where a name cannot be kept,
    `EndpointError`.
    """
    if settings.reset is False:
        return
    name = settings.reset if isinstance(settings.reset, str) else None
    target = Target(
        endpoint=endpoint, group=settings.group, consumer=settings.consumer, assignor=settings.assignor
    )
    with ExitStack() as opened:
        groups = {
            topic: opened.enter_context(GroupOffsets(target, topic, timeout_s=settings.connect_s))
            for topic in sorted(topics)
        }
        reset = _Reset(groups, start_of, emit)
        if name is None:
            reset.once()
        else:
            reset.under(name)


class _Reset:
    """One reset of all topics of an app."""

    def __init__(
        self,
        groups: Mapping[str, GroupOffsets],
        start_of: Callable[[str], Start],
        emit: Callable[[Event], None],
    ) -> None:
        self._groups = groups
        self._start_of = start_of
        self._emit = emit
        self._any = next(iter(groups.values()))
        # Kafka refuses the commit where there are members. Event Hubs is not known to: commits that move
        # while they are watched tell of them.
        self._watch_s = UNREPORTED_S if self._any.target.endpoint.is_event_hubs else 0.0
        # Since when others' claims have been seen, and how many were made here.
        self._seen_s: dict[str, float] = {}
        self._claims = 0

    def once(self) -> None:
        """Reset, whatever was before."""
        refuse_members(self._any, _AGAIN)
        before = self._commits()
        self._watch(before, lambda: self._refuse_changes(before, self._commits()), 0.0)
        self._move(None)

    def under(self, name: str) -> None:
        """Reset unless the group has been reset under this name."""
        while not _is_reset(commits := self._commits(), name):
            try:
                refuse_members(self._any, _AGAIN)
                self._try_under(name, commits)
            except GroupInUseError:
                # A replica may have reset it meanwhile, and have joined.
                if not _is_reset(self._commits(), name):
                    raise

    def _try_under(self, name: str, commits: _Commits) -> None:
        """Reset unless another replica is about to; else wait a moment."""
        other = next((one.text for one in commits.values() if one.text.startswith(CLAIM)), None)
        if other is not None and not self._is_late(other):
            time.sleep(CHECK_S)
            return
        if self._claims == CLAIMS_MAX:
            raise GroupInUseError(
                f"{self._whose}: other processes reset this group at the same time. Give all replicas the "
                f"same name in reset=, then start again."
            )
        self._claims += 1
        if self._claim(commits, name):
            self._move(name)

    @property
    def _whose(self) -> str:
        return f"Group {self._any.group!r} on {self._any.target.endpoint.name}"

    def _commits(self) -> _Commits:
        return {
            TopicPartition(topic, number): _Commit(*commit)
            for topic, group in self._groups.items()
            for number, commit in group.commits().items()
        }

    def _in_use(self, why: str) -> GroupInUseError:
        return GroupInUseError(
            f"{self._whose} cannot be reset: {ended(why)} Nothing was moved. Stop all consumers of the "
            f"group, wait until their session has ended, and {_AGAIN}."
        )

    def _is_late(self, other: str) -> bool:
        seen_s = self._seen_s.setdefault(other, time.monotonic())
        return time.monotonic() - seen_s > max(SETTLE_S, self._watch_s) + LATE_S

    def _claim(self, commits: _Commits, name: str) -> bool:
        """Write a claim and wait; tell whether it stands, so that no other replica resets."""
        at = min(commits)
        offset, text = commits[at]
        if offset is None:
            offset = self._groups[at.topic].offsets_at(self._start_of(at.topic), [at.partition])[at.partition]
        ours = claim(offset, facts_of(offset, text), secrets.token_hex(8))
        self._groups[at.topic].commit({at.partition: offset}, {at.partition: ours})
        stands = True

        def check() -> bool:
            nonlocal stands
            now = self._commits()
            if not now[at].text:
                raise ConfigurationError(
                    f"{self._whose}: the broker does not keep the metadata of commits, so it cannot "
                    f"remember reset={name!r}. Move the group once with: ehkafka offsets reset."
                )
            stands = now[at] == _Commit(offset, ours)
            if stands:
                self._refuse_changes({**commits, at: _Commit(offset, ours)}, now)
            return stands

        self._watch(commits, check, SETTLE_S)
        return stands

    def _watch(self, commits: _Commits, check: Callable[[], object], least_s: float) -> None:
        """Look again and again, and at the end; a look that returns False ends it."""
        seconds = least_s
        if self._watch_s and any(commit.offset is not None for commit in commits.values()):
            seconds = self._watch_s
            self._emit(GroupWatched(self._any.group, seconds))
        for found in checks(check, seconds):
            if found is False:
                return

    def _refuse_changes(self, before: _Commits, now: _Commits) -> None:
        for partition, commit in now.items():
            if partition in before and commit != before[partition]:
                raise self._in_use(f"the commit of {partition} changed while it was watched")

    def _move(self, name: str | None) -> None:
        """Commit where `start` says, the topic of the claim last: until then the claim stands."""
        count = 0
        for topic, group in reversed(list(self._groups.items())):
            before = group.commits()
            positions = group.offsets_at(self._start_of(topic), group.partitions)
            texts = {}
            for number, offset in positions.items():
                known = facts_of(before[number][0] or 0, before[number][1])
                # New partitions are counted from here on, and a reset is about the log of now.
                facts = known.of_no_log()._replace(first_partitions=len(group.partitions), reset=name)
                texts[number] = moved(offset, facts)
            group.commit(positions, texts)
            count += len(positions)
        self._emit(GroupReset(self._any.group, tuple(self._groups), count, name))


def _is_reset(commits: _Commits, name: str) -> bool:
    """Tell whether all commits there are carry the name, and there is one."""
    made = [commit for commit in commits.values() if commit.offset is not None]
    return bool(made) and all(facts_of(one.offset or 0, one.text).reset == name for one in made)
