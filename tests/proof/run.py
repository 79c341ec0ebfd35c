"""Decides from outside whether a chain of groups sends as is promised, while members and brokers fail.

It runs brokers of its own, members and a load, injects faults, lets all settle, and judges from topics and
commits alone. The last line is JSON with the counts; the exit code is 1 where a promise was broken, and
`shown` names the records. `scripts/proof` runs many of these.

    python -m tests.proof.run --mode exactly-once --kind tasks --seed 3 --seconds 60
    python -m tests.proof.run --brokers 3 --levels 3 --faults kill,broker-kill,leaders,cut-off
    python -m tests.proof.run --faults kill,kill,kill,roll --kills 20 --seconds 600

A fault that is named three times comes three times as often. Only a member that has partitions is killed.

Violations: `lost`; `early` (a commit calls finished what has not sent all); `back` (a commit goes back: of
those that were read meanwhile, and of all that `__consumer_offsets` has in the end); `text` (what goes with a
commit cannot be read); `order` (the first of an output behind a later one of its key); `last` (a key ends
with a repeat); `letters_order` (dead letters of a key's failed calls); `overlap` (one member handles two
records of a key at once); `unexpected`; `two_partitions`; `code`; `slow_stop`; `died`; `idle` (a member has
no partitions for too long); `stalled` (a commit stands still for two minutes though all runs); `stuck` (not
all is committed in the end); `load` (the load itself is not there); `readers` (they have skipped records,
seen aborted ones, or one twice); `checker` (it could not see all); `nothing_tried`; `lost_end_to_end` and so
on; exactly once also `repeated`, and `uncovered` (readers see it, commits do not call it finished).

At least once `repeated` is a count. `jumps` are repeats that leave out what was between; `overlaps_of_two`
are records of a key that two members have handled at once, as happens when one was frozen; `doubted` looked
wrong while a node that led no longer could still answer; `unfinished_stops` had a broker away, an output
refused, a freeze just before, or commits with too little room for text; `stranded` are members that say that
their client has lost all brokers, `fenced` those with an instance id that were frozen for too long, or whose
coordinator was away, just before they ended; `converted` are clients by hand of the protocol `consumer` that
ended since their mixed group went back to the classic one. With `--strict` failed attempts send, which no
reader may see.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.cluster.cluster import KafkaCluster
from tests.kit.waiting import wait_until
from tests.proof.load import Load
from tests.proof.members import Members
from tests.proof.node_faults import CLIENT, NodeFaults
from tests.proof.options import parse
from tests.proof.violations import Violations
from tests.proof.watch import Watch, topics_of
from tests.proof.work import output_topic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

# The leader of one of these coordinates groups or transactions.
COORDINATED = ("__consumer_offsets", "__transaction_state")
# Between two checks, and two lines of progress.
CHECKS_S, REPORTS_S = 0.5, 10.0
# Of each node's log, kept where a promise was broken.
LOG_LINES = 100_000


class Run:
    """One chain under faults on brokers of its own."""

    def __init__(self, asked: argparse.Namespace, cluster: Any, directory: Path) -> None:
        self.asked, self.cluster = asked, cluster
        self.violations = Violations()
        levels = range(asked.levels)
        self.modes = [asked.mode[level % len(asked.mode)] for level in levels]
        self.load = Load(
            cluster.bootstrap,
            asked.refused_every,
            random.Random(asked.seed + 1),
            sleep_share=asked.sleep_share,
            levels=asked.levels,
            keys=asked.keys,
        )
        self.watch = Watch(cluster.bootstrap, self.modes, self.violations)
        self.nodes = NodeFaults(
            cluster, [*topics_of(asked.levels), *COORDINATED], random.Random(asked.seed + 2)
        )
        dice = random.Random(asked.seed)
        self.members = Members(
            asked, cluster, self.nodes, directory, self.violations, dice, self.watch.refuses
        )
        self.faults: Counter[str] = Counter()
        self.settled_s = 0.0
        self._began_s = time.monotonic()
        self._over = threading.Event()
        # Each fault with the times between which it was injected.
        self._injected: list[tuple[str, int, int]] = []

    def carry_out(self) -> None:
        """Inject faults for as long as is asked for, and let all settle."""
        self.load.write(self.asked.backlog)
        self.members.start()
        self._began_s = time.monotonic()
        tasks: list[Callable[[], object]] = [self._load, self._watch]
        if "rebalance" in self.asked.faults:
            tasks.append(self._guest)
        threads = [threading.Thread(target=self._reported, args=(task,), daemon=True) for task in tasks]
        for thread in threads:
            thread.start()
        self._inject_all()
        self._over.set()
        for thread in threads:
            thread.join()
        self._reported(self._settle)

    def result(self) -> dict[str, Any]:
        """Judge, and return the counts."""
        asked, seen, verdicts = self.asked, self.watch.seen, self.watch.verdicts
        readers = self.watch.judge(self.load.numbers)
        repeated = {
            exactly_once: sum(one.repeated for one in verdicts if one.exactly_once == exactly_once)
            for exactly_once in (False, True)
        }
        if asked.repeats_max is not None and repeated[False] > asked.repeats_max:
            self.violations.blame("repeated", f"{repeated[False]} outputs")
        return {
            "seed": asked.seed,
            "brokers": asked.brokers,
            "mode": ",".join(asked.mode),
            "kind": ",".join(asked.kind),
            "protocol": asked.protocol,
            "static": asked.static,
            "seconds": round(time.monotonic() - self._began_s),
            "faults": self.faults + Counter({"rebalance": self.members.counts.pop("rebalance", 0)}),
            "leaders_moved": self.nodes.leaders_moved,
            "records": sum(one.records for one in seen),
            "records_by_level": [one.records for one in seen],
            "outputs": sum(one.outputs for one in seen),
            "letters": sum(one.dead for one in seen),
            "repeated": repeated[False],
            "repeated_exactly_once": repeated[True],
            "repeated_end_to_end": self.watch.ends.repeated,
            "load_repeated": len(self.watch.ends.written_again),
            "jumps": sum(verdict.jumps for verdict in verdicts),
            "overlaps_of_two": sum(one.overlaps_of_two for one in seen),
            "letters_in_order": sum(verdict.letters_in_order for verdict in verdicts),
            "commits": self.watch.commit_log.commits,
            "longest_stand_s": round(max(stalls.longest_s for stalls in self.watch.stalls), 1),
            "checks": verdicts[0].checks,
            "doubted": sum(verdict.doubted for verdict in verdicts),
            "ranges_seen": sum(verdict.ranges_seen for verdict in verdicts),
            "members": self.members.counts,
            "slowest_stop_s": round(self.members.slowest_stop_s, 1),
            "settled_s": round(self.settled_s, 1),
            "reader_resets": self.watch.reader.resets,
            "readers": readers,
            "violations": self.violations.counts,
            "by_level": self.violations.by_level,
            "shown": self.violations.shown,
            "evidence": self.watch.evidence,
        }

    def _reported(self, task: Callable[[], object]) -> object:
        """Carry out a task; what keeps the checker from seeing all is a violation, too."""
        try:
            return task()
        except Exception as error:
            self.violations.blame("checker", f"{getattr(task, '__name__', task)}: {error!r}")
            return 0

    def _load(self) -> None:
        began_s, backlog = time.monotonic(), self.load.count
        while not self._over.wait(0.02):
            due = int((time.monotonic() - began_s) * self.asked.rate)
            self.load.write(due + backlog - self.load.count)
        self.load.end()

    def _watch(self) -> None:
        reported_s = time.monotonic()
        while not self._over.wait(CHECKS_S):
            self.watch.check(is_calm=self.nodes.is_calm(), is_well=self.nodes.is_whole())
            if time.monotonic() - reported_s > REPORTS_S:
                reported_s = time.monotonic()
                self._report(reported_s - self._began_s)

    def _report(self, after_s: float) -> None:
        seen, faults = self.watch.seen, " ".join(f"{name}:{count}" for name, count in self.faults.items())
        records = "+".join(str(one.records) for one in seen)
        behind = f"{self.load.count} written, read {records}, committed to {self.watch.committed}"
        letters = sum(one.dead for one in seen)
        text = f"{after_s:.0f} s: {behind}, {letters} letters, faults {faults or 'none'}"
        print(text, dict(self.violations.counts) or "", file=sys.stderr, flush=True)  # noqa: T201 - progress

    def _guest(self) -> None:
        self.members.guest(self._over)

    def _inject_all(self) -> None:
        """Let members and nodes fail, each kind on a thread of its own, so that they fail together, too."""
        asked = self.asked
        ways = [
            (self.members.faults(), asked.pause, self.members.revive, asked.seed),
            (self.nodes.faults(), asked.node_pause, lambda: None, asked.seed + 3),
        ]
        threads = [threading.Thread(target=self._inject, args=way, daemon=True) for way in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _inject(
        self,
        of_name: dict[str, Callable[[], object]],
        pause: tuple[float, float],
        meanwhile: Callable[[], object],
        seed: int,
    ) -> None:
        ends_s, dice = self._began_s + self.asked.seconds, random.Random(seed)
        names = [name for name in self.asked.faults if name in of_name]
        turns: list[str] = []
        while time.monotonic() < ends_s and self._kills_are_left():
            time.sleep(dice.uniform(*pause))
            turns = turns or dice.sample(names, len(names))
            if turns:
                name, began_ns = turns.pop(), time.monotonic_ns()
                # One that returns 0 has found nothing to do.
                self.faults[name] += self._reported(of_name[name]) != 0
                self._injected.append((name, began_ns, time.monotonic_ns()))
            self._reported(meanwhile)

    def _kills_are_left(self) -> bool:
        return self.asked.kills is None or self.faults["kill"] < self.asked.kills

    def _settle(self) -> None:
        """Wait until all is committed, stop the members, and read the rest."""
        began_s = time.monotonic()
        wait_until(self.nodes.is_calm, "the brokers are calm")
        try:
            wait_until(self._is_settled, "all is committed", self.asked.settle)
        except AssertionError as error:
            self.violations.blame("stuck", f"{error}: {self.watch.commits()}")
        self.settled_s = time.monotonic() - began_s
        self.members.stop()
        self.watch.check()

    def _is_settled(self) -> bool:
        # The last fault may have fenced a static member, which ends after it.
        self.members.revive()
        return self.watch.check()

    def keep(self, cluster: Any, directory: Path) -> None:
        """Write what explains a violation next to the members' logs: the nodes' logs and topics among it."""
        (directory / "violations.txt").write_text("".join(f"{each}\n" for each in self.violations.all))
        commits = "".join(f"{json.dumps(each)}\n" for each in self.watch.commit_log.all)
        (directory / "commits.jsonl").write_text(commits)
        faults = "".join(f"{json.dumps(each)}\n" for each in self._injected)
        (directory / "faults.jsonl").write_text(faults)
        for node in cluster.nodes:
            (directory / f"node-{node.number}.log").write_text(node.log_tail(LOG_LINES))
            node.copy_topics(directory / f"node-{node.number}")

    def close(self) -> None:
        """End all that still runs."""
        self.members.close()
        self.watch.close()


@contextmanager
def brokers(asked: argparse.Namespace) -> Iterator[Any]:
    """Start what the run needs, with its topics."""
    with KafkaCluster(
        asked.brokers, clients=(CLIENT,), seed=asked.seed, clocks="broker-clock" in asked.faults
    ) as cluster:
        for name, partitions in topics_of(asked.levels).items():
            is_output = name in map(output_topic, range(asked.levels))
            limit = {"max.message.bytes": str(asked.limit)} if is_output else {}
            cluster.create_topic(name, partitions, limit)
        yield cluster


def check(*arguments: str) -> dict[str, Any]:
    """Carry out one run and return its counts, with `violations` of each kind."""
    asked = parse(__doc__, arguments)
    directory = Path(tempfile.mkdtemp(prefix="proof-"))
    with brokers(asked) as cluster:
        run = Run(asked, cluster, directory)
        try:
            run.carry_out()
            result = run.result()
            if result["violations"]:
                run.keep(cluster, directory)
        finally:
            run.close()
    if result["violations"]:
        return {**result, "logs": str(directory)}
    shutil.rmtree(directory)
    return result


def main() -> int:
    """Carry out a run and print its result."""
    result = check(*sys.argv[1:])
    print(json.dumps(result))  # noqa: T201 - what it is for
    return 1 if result["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
