"""Keeps the demo's parts running, and says how the engine is: in the terminal, and to the page by a file.

A part that has died is started again, after a pause that grows; only without the simulator there is no end to
compare with. What people ask for on the page comes as a file, too. Called by `show` on the main thread.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from home_pipeline.stage import STATUS, WISHES, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from home_pipeline.stage import Stage

SIMULATOR = "simulator"
PAUSE_S_MAX = 30
STEADY_S = 60.0
"""Who has run so long begins with the shortest pause again."""
SHARE = re.compile(r"this member has \d+ partitions: *([\d ]*)\n")
"""What the local engine logs when the group shares the partitions out anew."""
STEP = re.compile(r" (?:home-security|ehkafka\.spark) (.*)\n")
"""What the Spark engine logs while it starts."""
STARTED = "the first batch is written"


def say(words: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


class Log:
    """What an engine's log has said so far; each look reads on from where the last one ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.partitions: list[int] = []
        self.steps: list[str] = []
        self.is_ready = False

    def look(self) -> None:
        """Take in the lines that are whole."""
        with self._path.open("rb") as log:
            log.seek(self._at)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        text = whole.decode(errors="replace")
        for numbers in SHARE.findall(text):
            self.partitions = [int(number) for number in numbers.split()]
        self.steps += STEP.findall(text)
        self.is_ready = self.is_ready or bool(self.partitions) or STARTED in text


class Keeper:
    """Watches the parts of a stage, `check` by `check`."""

    def __init__(self, stage: Stage, folder: Path, engine: str, partitions: int) -> None:
        self._stage = stage
        self._folder = folder
        self._engine = engine
        self._all = list(range(partitions))
        self._logs: dict[str, Log] = {}
        # By part: when it was started, when it is to be started again, how often it died soon after a start.
        self._started_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}
        self._deaths: Counter[str] = Counter()
        self._restarts = 0
        self._done: dict[str, float] = {}
        self._shares: tuple[list[int], ...] = ()
        self._reported: tuple[list[int], ...] = ()
        self._state = ("starting", time.time())
        self._status: dict[str, Any] = {}

    def check(self) -> bool:
        """Start again what has died, do what people wish; tell whether the simulator still runs."""
        for name, words in [*self._stage.failed()]:
            if name == SIMULATOR:
                print(words, file=sys.stderr)
                return False
            self._revive(name, words)
        self._fulfil()
        self._look()
        return True

    def start_second(self) -> None:
        """Start a second process of the local engine, once."""
        if "second" not in self._done:
            self._done["second"] = time.time()
            self._stage.start("engine-2", "local_engine")
            members = ", ".join(str(self._stage.parts[name].pid) for name in self._engines())
            say(f"a second process joins the group; the members' process ids: {members}")

    def _revive(self, name: str, words: str) -> None:
        """Start a part again when its pause is over; the pause begins when its death is seen."""
        now_s = time.monotonic()
        if name not in self._due_s:
            if now_s > self._started_s.get(name, 0.0) + STEADY_S:
                self._deaths[name] = 0
            pause_s = min(PAUSE_S_MAX, 2 ** self._deaths[name])
            self._deaths[name] += 1
            self._due_s[name] = now_s + pause_s
            first, *_, last = [*words.splitlines(), ""]
            say(f"{first.rstrip(':')}; it starts again in {pause_s} s. {last[:300]}".rstrip())
        elif now_s > self._due_s[name]:
            del self._due_s[name]
            self._started_s[name] = now_s
            self._logs.pop(name, None)
            self._restarts += name in self._engines()
            self._stage.restart(name)
            say(f"{name} starts again")

    def _fulfil(self) -> None:
        """Do what people have asked for on the page, once each."""
        file = self._folder / WISHES
        wishes = json.loads(file.read_text()) if file.exists() else {}
        if "second" in wishes and self._engine == "local":
            self.start_second()
        if "sell" in wishes and "sell" not in self._done and SIMULATOR in self._stage.parts:
            self._stage.tell(SIMULATOR, "sell")
            self._done["sell"] = time.time()
            say("carbon monoxide sensors are sold from now on")

    def _look(self) -> None:
        """Read the engines' logs; say, and write for the page, what is new."""
        alive = [name for name in self._engines() if name not in self._due_s]
        logs = {name: self._logs.setdefault(name, Log(self._stage.log(name))) for name in alive}
        for name, log in logs.items():
            steps = len(log.steps)
            log.look()
            for step in log.steps[steps:]:
                say(f"{name}: {step}")
        ready = [name for name, log in logs.items() if log.is_ready]
        state = "running" if ready else "starting" if alive else "down"
        if state != self._state[0]:
            self._state = (state, time.time())
        self._tell_shares(tuple(log.partitions for log in logs.values()))
        if self._engine == "spark":
            members = {"a Spark task": self._all} if ready else {}
        else:
            members = {name: log.partitions for name, log in logs.items()}
        last = [step for log in logs.values() for step in log.steps[-1:]]
        status = {
            "engine": self._engine,
            "state": state,
            "since_s": self._state[1],
            "step": last[0] if last and state == "starting" else None,
            "restarts": self._restarts,
            "members": members,
            "done": dict(self._done),
        }
        if status != self._status:
            self._status = status
            replace_file(self._folder / STATUS, status)

    def _tell_shares(self, shares: tuple[list[int], ...]) -> None:
        """Tell how many partitions each member has, when two looks in a row find the same."""
        before, self._shares = self._shares, shares
        if len(shares) > 1 and all(shares) and shares == before != self._reported:
            self._reported = shares
            say(f"the members have {' and '.join(str(len(share)) for share in shares)} partitions")

    def _engines(self) -> list[str]:
        return [name for name in self._stage.parts if name.startswith("engine")]
