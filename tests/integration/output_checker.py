"""Decides from outside whether a group of members sends as is promised, while members and the broker fail.

It runs a broker of its own, members (`output_member`) and a load, injects faults, lets all settle, and judges
from topics and commits alone (`output_verdict`). The last line is JSON with the counts; the exit code is 1
where a promise was broken, and `shown` names the records.

    python -m tests.integration.output_checker --mode exactly-once --kind tasks --seed 3 --seconds 60
    python -m tests.integration.output_checker --faults kill,member-freeze --metadata-bytes 64
    python -m tests.integration.output_checker --faults kill,kill,kill,roll --kills 20 --seconds 600

A fault that is named three times comes three times as often. Only a member that has partitions is killed.

Violations: `lost`; `early` (a commit calls finished what has not sent all); `order` (the first of an output
behind a later one of its key); `last` (a key ends with a repeat); `unexpected`; `two_partitions`; `code`;
`slow_stop`; `died`; `stuck` (not all is committed in the end); `reader`; exactly once also `repeated`, and
`uncovered` (readers see it, commits do not call it finished). At least once `repeated` is a count. `jumps`
are repeats that leave out what was between; `outages_felt` are members that ended because no broker said
where to begin, `stranded` those whose client never found the broker again. With `--strict` failed attempts
send, which no reader may see.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ehkafka.errors import EhkafkaError, EndpointError
from ehkafka.testing import JsonLinesHistory
from ehkafka.testing.kafka.broker import KafkaBroker
from ehkafka.testing.kafka.properties import Listener
from tests.integration.output_load import Load
from tests.integration.output_member import DEAD, INPUT, OUTPUT
from tests.integration.output_options import WORKERS, parse
from tests.integration.output_verdict import PATIENCE_S, Commits, Reader, Seen
from tests.kit.forgetful_proxy import ForgetfulProxy
from tests.kit.processes import MemberProcess
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

MEMBER = Path(__file__).with_name("output_member.py")
PARTITIONS, DEAD_PARTITIONS = 6, 3
SESSION_S, TRANSACTION_S, STOP_S, UNFINISHED = 5.0, 4.0, 12.0, 4
# So long a rebalance waits for a member that the coordinator does not give up: after a broker's kill a group
# stood for minutes at the default of 300 s.
POLL_S = 30.0
# Beyond `stop_s`: threads, processes and the interpreter end on a machine that many share.
SLACK_S = 8.0
# A stop that ends so soon after a fault of the broker, or while an output is refused, may leave work, and its
# exit code says so.
RECOVERS_S = 20.0
# A member that is frozen for so long has lost its session and its transaction.
FROZEN_S = (7.0, 10.0)
# So long without partitions after a fault of the broker, a member is started again.
STRANDED_S = 45.0
BROKER_AWAY_S, BROKER_FROZEN_S = (0.5, 4.0), (2.0, 7.0)
# OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID
FORGOTTEN = (45, 47, 49, 59)
# How long the guest stays, and is away; between two checks, and two lines of progress.
GUEST_S, CHECKS_S, REPORTS_S = 2.5, 0.5, 10.0


class Watch:
    """Reads topics and commits again and again, and finds a commit that is ahead of its outputs."""

    def __init__(self, bootstrap: str, seen: Seen) -> None:
        self.seen = seen
        self.committed = 0
        self.commits = Commits(bootstrap, PARTITIONS)
        self.readers = (
            Reader(bootstrap, INPUT, PARTITIONS, seen.input),
            Reader(bootstrap, OUTPUT, PARTITIONS, seen.output),
            Reader(bootstrap, DEAD, DEAD_PARTITIONS, seen.letter),
        )

    def check(self) -> bool:
        """Compare what is there now; return whether all inputs are committed.

        What the commits call finished must be in the topics as they are after the commits were read. Exactly
        once, they must call finished what was read before them.
        """
        fresh = self.seen.take_fresh()
        commits = self.commits.read()
        for reader in self.readers:
            reader.read()
        self.seen.check(commits, fresh)
        self.committed = sum(commit.next_offset for commit in commits)
        return self.committed == sum(map(len, self.seen.inputs))

    def close(self) -> None:
        """Close all clients."""
        for reader in (*self.readers, self.commits):
            reader.close()


class Run:
    """One group under faults on a broker of its own."""

    def __init__(
        self, asked: argparse.Namespace, broker: KafkaBroker, proxy: ForgetfulProxy, directory: Path
    ) -> None:
        self.asked, self.broker, self.proxy, self.directory = asked, broker, proxy, directory
        self.dice = random.Random(asked.seed)
        self.seen = Seen(PARTITIONS, exactly_once=asked.mode == "exactly-once", is_strict=asked.strict)
        dice = random.Random(asked.seed + 1)
        self.load = Load(broker.bootstrap, asked.refused_every, dice, sleep_share=asked.sleep_share)
        self.watch = Watch(broker.bootstrap, self.seen)
        self.witness = JsonLinesHistory(directory / "witness.jsonl")
        self.members = [self.member(number) for number in range(asked.members)]
        self.faults: Counter[str] = Counter()
        self.slowest_stop_s = self._broker_back_s = 0.0
        self.unfinished_stops = self.outages_felt = self.stranded = 0
        self.settled_s = 0.0
        self._over = threading.Event()

    def member(self, number: int) -> MemberProcess:
        """Return one more member, which does not run."""
        kind = self.asked.kind[number % len(self.asked.kind)]
        times_ms = {"session.timeout.ms": int(SESSION_S * 1000), "max.poll.interval.ms": int(POLL_S * 1000)}
        settings: dict[str, Any] = {"stop_s": STOP_S, "drain_s": 2, "consumer": times_ms}
        if self.asked.metadata_bytes is not None:
            settings["commit_metadata_bytes_max"] = self.asked.metadata_bytes
        if self.seen.exactly_once:
            settings["exactly_once"] = True
            settings["producer"] = {"transaction.timeout.ms": int(TRANSACTION_S * 1000)}
        if self.asked.static:
            settings["instance_id"] = f"member-{number}"
        by_proxy = {"cut", "forget"} & {*self.asked.faults}
        bootstrap = self.proxy.address if by_proxy else self.broker.bootstrap
        options = {"bootstrap": bootstrap, "settings": settings, "kind": kind}
        options |= {"workers": WORKERS[kind], "strict": self.asked.strict, "broken": self.asked.broken}
        where: Any = {"name": f"member-{number}", "directory": self.directory, "witness": self.witness}
        return MemberProcess(MEMBER, ["--options", json.dumps(options)], **where)

    def carry_out(self) -> None:
        """Inject faults for as long as is asked for, and let all settle."""
        self.load.write(self.asked.backlog)
        for member in self.members:
            member.start()
        tasks = [self._load, self._watch, *([self._guest] if "rebalance" in self.asked.faults else [])]
        threads = [threading.Thread(target=self._reported, args=(task,), daemon=True) for task in tasks]
        for member in self.members:
            self._wait_until_ready(member)
        for thread in threads:
            thread.start()
        self._reported(self._inject)
        self._over.set()
        for thread in threads:
            thread.join()
        self._reported(self._settle)

    def result(self) -> dict[str, Any]:
        """Judge, and return the counts."""
        seen = self.seen
        seen.judge()
        read_anew = self._read_anew() if seen.violations["lost"] else None
        if self.asked.repeats_max is not None and seen.repeated > self.asked.repeats_max:
            seen.blame("repeated", f"{seen.repeated} outputs")
        return {
            "mode": self.asked.mode,
            "kind": ",".join(self.asked.kind),
            "seed": self.asked.seed,
            "records": sum(map(len, seen.inputs)),
            "outputs": seen.outputs.total(),
            "letters": seen.letters.total(),
            "repeated": seen.repeated,
            "jumps": seen.jumps,
            "checks": seen.checks,
            "ranges_seen": seen.ranges_seen,
            "unfinished_stops": self.unfinished_stops,
            "outages_felt": self.outages_felt,
            "stranded": self.stranded,
            "slowest_stop_s": round(self.slowest_stop_s, 1),
            "settled_s": round(self.settled_s, 1),
            "faults": self.faults,
            "reader_resets": sum(reader.resets for reader in self.watch.readers),
            "lost_when_read_anew": read_anew and read_anew.violations["lost"],
            "lost_by_partition": read_anew and read_anew.lost_by_partition(),
            "violations": seen.violations,
            "shown": seen.shown,
        }

    def _read_anew(self) -> Seen:
        """Read all once more, by new clients, which may find what is lost."""
        anew = Seen(PARTITIONS, exactly_once=self.seen.exactly_once, is_strict=self.asked.strict)
        watch = Watch(self.broker.bootstrap, anew)
        for reader in watch.readers:
            reader.read()
        watch.close()
        anew.judge()
        return anew

    def _reported(self, task: Callable[[], object]) -> None:
        """Carry out a task; what keeps the checker from seeing all is a violation, too."""
        try:
            task()
        except Exception as error:
            self.seen.blame("reader", f"{task.__name__}: {error!r}")

    def _load(self) -> None:
        began_s, backlog = time.monotonic(), self.load.count
        while not self._over.wait(0.02):
            due = int((time.monotonic() - began_s) * self.asked.rate)
            self.load.write(due + backlog - self.load.count)
        self.load.end()

    def _watch(self) -> None:
        began_s = reported_s = time.monotonic()
        while not self._over.wait(CHECKS_S):
            self.watch.check()
            if time.monotonic() - reported_s > REPORTS_S:
                reported_s = time.monotonic()
                self._report(reported_s - began_s)

    def _report(self, after_s: float) -> None:
        seen, faults = self.seen, " ".join(f"{name}:{count}" for name, count in self.faults.items())
        counts = (
            f"{self.load.count} records, {self.watch.committed} committed, {seen.outputs.total()} outputs"
        )
        text = f"{after_s:.0f} s: {counts}, {seen.letters.total()} letters, faults {faults or 'none'}"
        print(text, dict(seen.violations) or "", file=sys.stderr, flush=True)  # noqa: T201 - progress

    def _guest(self) -> None:
        guest = self.member(len(self.members))
        while not self._over.is_set():
            guest.start()
            self._wait_until_ready(guest)
            self._over.wait(GUEST_S)
            self._stop(guest)
            self.faults["rebalance"] += 1
            self._over.wait(GUEST_S)

    def _inject(self) -> None:
        ends_s = time.monotonic() + self.asked.seconds
        of_name: dict[str, Callable[[], object]] = {
            "kill": self._kill,
            "stop": self._restart,
            "roll": self._roll,
            "member-freeze": self._freeze,
            "broker-kill": self._kill_broker,
            "broker-freeze": self._freeze_broker,
            "broker-restart": self._restart_broker,
            "cut": self.proxy.cut,
            "forget": lambda: self.proxy.forget(self.dice.choice(FORGOTTEN)),
        }
        names = [name for name in self.asked.faults if name in of_name]
        turns: list[str] = []
        while time.monotonic() < ends_s and self._kills_are_left():
            time.sleep(self.dice.uniform(*self.asked.pause))
            turns = turns or self.dice.sample(names, len(names))
            if turns:
                of_name[turns[-1]]()
                self.faults[turns.pop()] += 1
            for member in self.members:
                self._revive(member)

    def _kills_are_left(self) -> bool:
        return self.asked.kills is None or self.faults["kill"] < self.asked.kills

    def _revive(self, member: MemberProcess) -> None:
        """Start one again that has ended by itself, as a supervisor does."""
        if member.is_running:
            return
        if member.exit_code == EndpointError.exit_code and self._recovers():
            self.outages_felt += 1
        else:
            self.seen.blame("died", f"{member.name} with code {member.exit_code}: {member.log_tail()}")
        member.start()

    def _recovers(self) -> bool:
        return time.monotonic() - self._broker_back_s < RECOVERS_S

    def _kill(self) -> None:
        """One that has partitions: the death of one that has none loses nothing."""
        wait_until(lambda: any(member.assigned() for member in self.members), "a member", PATIENCE_S)
        member = self.dice.choice([member for member in self.members if member.assigned()])
        member.kill()
        member.start()

    def _restart(self) -> None:
        self._stop_and_start(self.dice.choice(self.members))

    def _roll(self) -> None:
        for member in self.members:
            self._stop_and_start(member)

    def _stop_and_start(self, member: MemberProcess) -> None:
        self._wait_until_ready(member)
        self._stop(member)
        member.start()

    def _freeze(self) -> None:
        member = self.dice.choice(self.members)
        member.suspend()
        time.sleep(self.dice.uniform(*FROZEN_S))
        member.resume()

    def _kill_broker(self) -> None:
        self._broker_back_s = math.inf
        self.broker.kill()
        time.sleep(self.dice.uniform(*BROKER_AWAY_S))
        self.broker.restart()
        self._broker_back_s = time.monotonic()

    def _freeze_broker(self) -> None:
        self._broker_back_s = math.inf
        self.broker.suspend()
        time.sleep(self.dice.uniform(*BROKER_FROZEN_S))
        self.broker.resume()
        self._broker_back_s = time.monotonic()

    def _restart_broker(self) -> None:
        self._broker_back_s = math.inf
        self.broker.restart()
        self._broker_back_s = time.monotonic()

    def _wait_until_ready(self, member: MemberProcess) -> None:
        """Wait until it has partitions: before that a signal would only end the interpreter."""

        def is_ready() -> bool:
            self._revive(member)
            return bool(member.assigned())

        def words() -> str:
            return f"partitions\n{member.log_tail()}"

        try:
            wait_until(is_ready, words, STRANDED_S)
        except AssertionError:
            if not self.broker_faults:
                raise
            # See `Reader.read`; its probe of liveness would have it started again.
            self.stranded += 1
            member.kill()
            member.start()
            wait_until(is_ready, words, PATIENCE_S)

    @property
    def broker_faults(self) -> int:
        """How often the broker was away."""
        return sum(count for name, count in self.faults.items() if name.startswith("broker"))

    def _stop(self, member: MemberProcess) -> None:
        began_s = time.monotonic()
        member.terminate()
        try:
            code = member.wait(STOP_S + SLACK_S)
        except EhkafkaError as error:
            self.seen.blame("slow_stop", str(error))
            member.kill()
            return
        self.slowest_stop_s = max(self.slowest_stop_s, time.monotonic() - began_s)
        if code == UNFINISHED and (self._recovers() or self.asked.refused_every):
            self.unfinished_stops += 1
        elif code == EndpointError.exit_code and self._recovers():
            self.outages_felt += 1
        elif code:
            self.seen.blame("code", f"{code}: {member.log_tail()}")

    def _settle(self) -> None:
        """Wait until all is committed, stop the members, and read the rest."""
        began_s = time.monotonic()
        try:
            wait_until(self.watch.check, "all is committed", self.asked.settle)
        except AssertionError as error:
            self.seen.blame("stuck", f"{error}: {self.watch.commits.read()}")
        self.settled_s = time.monotonic() - began_s
        for member in self.members:
            self._wait_until_ready(member)
            self._stop(member)
        self.watch.check()

    def close(self) -> None:
        """End all that still runs."""
        for member in self.members:
            member.close()
        self.watch.close()
        self.witness.close()


def check(*arguments: str) -> dict[str, Any]:
    """Carry out one run and return its counts, with `violations` of each kind."""
    asked = parse(__doc__, arguments)
    # Else a member that was killed leaves its transaction open for 10 s more.
    aborts = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}
    directory = Path(tempfile.mkdtemp(prefix="output-checker-"))
    with ForgetfulProxy() as proxy:
        listeners = {"far": Listener(advertised_port=proxy.port)}
        with KafkaBroker(properties=aborts, listeners=listeners) as broker:
            proxy.forward_to(broker.bootstrap_for("far"))
            broker.create_topic(INPUT, PARTITIONS)
            broker.create_topic(OUTPUT, PARTITIONS, {"max.message.bytes": str(asked.limit)})
            broker.create_topic(DEAD, DEAD_PARTITIONS)
            run = Run(asked, broker, proxy, directory)
            try:
                run.carry_out()
                result = run.result()
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
