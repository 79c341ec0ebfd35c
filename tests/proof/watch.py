"""Reads all topics and commits of a chain again and again; finds commits that are ahead of their outputs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.proof.commit_log import CommitLog
from tests.proof.end_to_end import EndToEnd
from tests.proof.reader import Commits, Follower, Reader
from tests.proof.seen import Names, Seen
from tests.proof.stalls import STALLED_S, Stalls
from tests.proof.verdict import Verdict
from tests.proof.work import DEAD_PARTITIONS, PARTITIONS, dead_topic, group_of, input_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.proof.violations import Violations

EXACTLY_ONCE = "exactly-once"
EVIDENCE_MAX = 60


def topics_of(levels: int) -> dict[str, int]:
    """Return all topics of a chain, each with its partitions."""
    inputs = {input_topic(level): PARTITIONS for level in range(levels + 1)}
    return inputs | {dead_topic(level): DEAD_PARTITIONS for level in range(levels)}


def level_of_outputs(topic: str) -> int | None:
    """Return the level whose outputs a topic has, if it has some."""
    name, _, number = topic.partition("-")
    return int(number) - 1 if name == "level" and int(number) else None


class Watch:
    """What was seen of a chain whose levels have these modes."""

    def __init__(self, bootstrap: str, modes: Sequence[str], violations: Violations) -> None:
        self._bootstrap, self._violations = bootstrap, violations
        keys, levels = Names(), range(len(modes))
        once = [mode == EXACTLY_ONCE for mode in modes]
        self.seen = [Seen(level, keys, PARTITIONS) for level in levels]
        self.verdicts = [
            Verdict(seen, violations, exactly_once=exactly)
            for seen, exactly in zip(self.seen, once, strict=True)
        ]
        self.stalls = [Stalls(PARTITIONS) for _ in levels]
        self.commit_log = CommitLog(len(modes), violations)
        self.ends = EndToEnd(keys, violations, exactly_once=all(once))
        self.committed = [0 for _ in levels]
        self.evidence: list[str] = []
        self._commits = [
            Commits(bootstrap, group_of(level), input_topic(level), PARTITIONS) for level in levels
        ]
        self._of_topic = {input_topic(level): [seen.input] for level, seen in enumerate(self.seen)}
        self._of_topic[input_topic(0)].append(self.ends.first)
        self._of_topic[input_topic(len(modes))] = [self.ends.last]
        for level, seen in enumerate(self.seen):
            self._of_topic[input_topic(level + 1)].append(seen.output)
            self._of_topic[dead_topic(level)] = [seen.letter]
        self._topics = topics_of(len(modes))
        self.reader = Reader(bootstrap, self._topics, self._take)
        self.follower = Follower(bootstrap, self._topics)

    def _take(self, message: Any) -> None:
        for take in self._of_topic[message.topic()]:
            take(message)

    def check(self, *, is_calm: bool = True, is_well: bool = True) -> bool:
        """Compare what is there now; return whether all inputs of all levels are committed.

        What the commits call finished must be in the topics as they are after the commits were read. Exactly
        once, they must call finished what was read before them. `is_well`: brokers and members run, so that
        commits must go on.
        """
        fresh = [seen.take_fresh() for seen in self.seen]
        commits, read_ns = [], []
        for one in self._commits:
            commits.append(one.read())
            read_ns.append(time.monotonic_ns())
        self.reader.read()
        for verdict, of_level, sent, at_ns in zip(self.verdicts, commits, fresh, read_ns, strict=True):
            verdict.check(of_level, sent, is_calm=is_calm, read_ns=at_ns)
        ends = [[commit.next_offset for commit in of_level] for of_level in commits]
        self.committed = [sum(of_level) for of_level in ends]
        for seen, stalls, next_offsets in zip(self.seen, self.stalls, ends, strict=True):
            self._judge_stalls(seen, stalls, next_offsets, is_well=is_well)
        return all(seen.is_done(of_level) for seen, of_level in zip(self.seen, ends, strict=True))

    def _judge_stalls(self, seen: Seen, stalls: Stalls, commits: list[int], *, is_well: bool) -> None:
        written = [len(log.actions) for log in seen.logs]
        for partition, commit in stalls.check(time.monotonic(), commits, written, is_well=is_well):
            text = f"is the commit, and has been for {STALLED_S:g} s in which brokers and members ran"
            self._violations.by_record("stalled", seen.level, partition, commit, text)

    def refuses(self, level: int, partitions: set[int], since_s: float) -> bool:
        """Tell whether an output of these partitions' records may have been refused since then."""
        return self.seen[level].refuses(partitions, since_s)

    def commits(self) -> list[Any]:
        """Return what each level's commits say now."""
        return [one.read() for one in self._commits]

    def judge(self, written: list[int]) -> dict[str, int]:
        """Judge all, and return what readers have found: none of it may be."""
        for verdict in self.verdicts:
            verdict.judge()
        self.ends.written(written)
        self.ends.judge()
        self.commit_log.read(self._bootstrap)
        return self._compare_readers()

    def _compare_readers(self) -> dict[str, int]:
        """Read all once more by a new client: what the others have read must be just that."""
        anew = Reader(self._bootstrap, self._topics, self._note_evidence)
        anew.read()
        anew.close()
        self.follower.close()
        found: dict[str, int] = {}
        for name, sums in (("reader", self.reader.sums), ("follower", self.follower.sums)):
            for kind, count in sums.differences(anew.sums).items():
                found[f"{name}_{kind}"] = count
                self._violations.blame("readers", f"{name} has {count} {kind}")
        for error in self.follower.errors:
            self._violations.blame("readers", f"follower: {error}")
        return found

    def _note_evidence(self, message: Any) -> None:
        """Note an output whose record has broken a promise: where it is, who has sent it, and when."""
        level = level_of_outputs(message.topic())
        if level is None or len(self.evidence) >= EVIDENCE_MAX:
            return
        *_, partition, offset, member, begin, end = message.value()[:160].split()[:9]
        if self._violations.named(level, int(partition), int(offset)):
            where = (
                f"{message.topic()}/{message.partition()}@{message.offset()} at {message.timestamp()[1]} ms"
            )
            source = f"level-{level}/{int(partition)}@{int(offset)}, key {message.key().decode()}"
            by = f"by {member.decode()} from {int(begin)} to {int(end)} ns"
            self.evidence.append(f"{where}: of {source}, {by}")

    def close(self) -> None:
        """Close all clients."""
        self.follower.close()
        self.reader.close()
        for commits in self._commits:
            commits.close()
