"""Reads all topics and commits of a chain again and again; finds commits that are ahead of their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.proof.end_to_end import EndToEnd
from tests.proof.reader import Commits, Follower, Reader
from tests.proof.seen import Names, Seen
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

    def check(self, *, is_calm: bool = True) -> bool:
        """Compare what is there now; return whether all inputs of all levels are committed.

        What the commits call finished must be in the topics as they are after the commits were read. Exactly
        once, they must call finished what was read before them.
        """
        fresh = [seen.take_fresh() for seen in self.seen]
        commits = [one.read() for one in self._commits]
        self.reader.read()
        for verdict, of_level, sent in zip(self.verdicts, commits, fresh, strict=True):
            verdict.check(of_level, sent, is_calm=is_calm)
        ends = [[commit.next_offset for commit in of_level] for of_level in commits]
        self.committed = [sum(of_level) for of_level in ends]
        return all(seen.is_done(of_level) for seen, of_level in zip(self.seen, ends, strict=True))

    def commits(self) -> list[Any]:
        """Return what each level's commits say now."""
        return [one.read() for one in self._commits]

    def judge(self, written: list[int]) -> dict[str, int]:
        """Judge all, and return what readers have found: none of it may be."""
        for verdict in self.verdicts:
            verdict.judge()
        self.ends.written(written)
        self.ends.judge()
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
