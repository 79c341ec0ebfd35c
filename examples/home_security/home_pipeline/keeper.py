"""Keeps the demo's parts running, and says how the engine is: in the terminal, and to the page by a file.

A part that has died is started again, after a pause that grows; only without the simulator there is no end to
compare with. The store is Azurite, whose blobs are in a folder: they are there again, but for those of the
last seconds, which it has forgotten. So what knows more than the store is started again, too: the engines
write what is missing once more, and the page shows what is there. What people ask for on the page comes as a
file. Called by `show` on the main thread.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from home_pipeline.container import create_container
from home_pipeline.readings import PARTITIONS
from home_pipeline.stage import STATUS, WISHES, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from azure.storage.blob import ContainerClient

    from home_pipeline.stage import Stage
    from tests.kit.azurite import Azurite

    Store = tuple[Azurite, ContainerClient]

SIMULATOR, PAGE, STORE = "simulator", "page", "store"
PAUSE_S_MAX = 30
STEADY_S = 60.0
"""A part that ran so long begins with the shortest pause again."""
SHARE = re.compile(r"this member has \d+ partitions: *([\d ]*)\n")
"""What the local engine logs when the group shares the partitions out anew."""
STEP = re.compile(r" (?:home-security|ehkafka\.spark) (.*)\n")
"""What the Spark engine logs while it starts; `STARTED` ends that."""
STARTED = "the first batch is written"


def say(words: str) -> None:
    """Print a line with the time."""
    print(f"{time.strftime('%H:%M:%S')}  {words}", flush=True)


class Log:
    """What an engine's log says; each look reads on from where the last one ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.partitions: list[int] = []
        self.step = ""
        self.is_ready = False

    def look(self) -> list[str]:
        """Take in the lines that are whole; return the steps in them."""
        with self._path.open("rb") as log:
            log.seek(self._at)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        text = whole.decode(errors="replace")
        for numbers in SHARE.findall(text):
            self.partitions = [int(number) for number in numbers.split()]
        steps: list[str] = STEP.findall(text)
        self.step = [self.step, *steps][-1]
        self.is_ready = self.is_ready or bool(self.partitions) or STARTED in text
        return steps


class Keeper:
    """Watches the parts of a stage, `check` by `check`."""

    def __init__(self, stage: Stage, folder: Path, engine: str, store: Store | None = None) -> None:
        self._stage = stage
        self._store = store
        self._folder = folder
        self._logs: dict[str, Log] = {}
        # By part: when it was started again, when it is to be, how often it died soon after a start.
        self._started_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}
        self._deaths: Counter[str] = Counter()
        # As the page gets it, and as it was when it was written last.
        self._status: dict[str, Any] = {"engine": engine, "state": "", "restarts": 0, "done": {}}
        self._written = ""
        self._shares: tuple[list[int], ...] = ()
        self._reported: tuple[list[int], ...] = ()

    def check(self) -> bool:
        """Start again what has died, do what people wish; tell whether the simulator still runs."""
        for name, words in self._ended():
            if name == SIMULATOR:
                print(words, file=sys.stderr)
                return False
            self._revive(name, words)
        self._fulfil()
        self._report()
        return True

    def start_second(self) -> None:
        """Start a second process of the local engine, once."""
        if "engine-2" not in self._stage.parts:
            self._status["done"]["second"] = time.time()
            self._stage.start("engine-2", "local_engine")
            members = ", ".join(str(self._stage.parts[name].pid) for name in self._engines())
            say(f"a second process joins the group; the members' process ids: {members}")

    def _ended(self) -> list[tuple[str, str]]:
        """Return what has ended that should run, and why; without the store nothing else is started again."""
        if self._store is not None and (code := self._store[0].exit_code) is not None:
            return [(STORE, f"{STORE} ended with code {code}:")]
        return [*self._stage.failed()]

    def _revive(self, name: str, words: str) -> None:
        """Start a part again when its pause is over; the pause begins when its death is seen."""
        now_s = time.monotonic()
        if name not in self._due_s:
            if now_s > self._started_s.get(name, 0.0) + STEADY_S:
                self._deaths[name] = 0
            pause_s = min(PAUSE_S_MAX, 2 ** self._deaths[name])
            self._deaths[name] += 1
            self._due_s[name] = now_s + pause_s
            first, *others = words.splitlines()
            last = others[-1][:300] if others else ""
            say(f"{first.rstrip(':')}; it starts again in {pause_s} s. {last}".rstrip())
        elif now_s > self._due_s[name]:
            del self._due_s[name]
            self._started_s[name] = now_s
            self._start_again(name)
            say(f"{name} starts again")

    def _start_again(self, name: str) -> None:
        parts = [name]
        if name == STORE and self._store is not None:
            azurite, container = self._store
            parts = [*self._engines(), PAGE]
            for engine in self._engines():
                self._stage.kill(engine)  # before it can write to a store that has forgotten something
            azurite.stop()
            azurite.start()
            create_container(container)
            self._stage.kill(PAGE)
        for part in parts:
            self._due_s.pop(part, None)
            self._logs.pop(part, None)
            self._status["restarts"] += part in self._engines()
            self._stage.restart(part)

    def _fulfil(self) -> None:
        """Do what people have asked for on the page, once each."""
        file, done = self._folder / WISHES, self._status["done"]
        wishes = json.loads(file.read_text()) if file.exists() else {}
        if "second" in wishes and self._status["engine"] == "local":
            self.start_second()
        if "sell" in wishes and "sell" not in done and SIMULATOR in self._stage.parts:
            done["sell"] = time.time()
            say("carbon monoxide sensors are sold from now on")
            with contextlib.suppress(BrokenPipeError):  # it has just died: the next look says so
                self._stage.tell(SIMULATOR, "sell")

    def _report(self) -> None:
        """Read the engines' logs; say, and write for the page, what is new."""
        alive = [name for name in self._engines() if name not in self._due_s]
        logs = {name: self._logs.setdefault(name, Log(self._stage.log(name))) for name in alive}
        for name, log in logs.items():
            for step in log.look():
                say(f"{name}: {step}")
        is_ready = any(log.is_ready for log in logs.values())
        state = "running" if is_ready else "starting" if logs else "down"
        if state != self._status["state"]:
            self._status |= {"state": state, "since_s": time.time()}
        self._status["step"] = (
            (logs["engine"].step or None) if state == "starting" and "engine" in logs else None
        )
        self._status["members"] = {name: log.partitions for name, log in logs.items()}
        if is_ready and self._status["engine"] == "spark":
            self._status["members"] = {"a Spark task": [*range(PARTITIONS)]}
        if (status := json.dumps(self._status)) != self._written:
            replace_file(self._folder / STATUS, self._status)
            self._written = status
        # Who has which partitions is said when two looks in a row find the same.
        before, self._shares = self._shares, tuple(log.partitions for log in logs.values())
        if len(logs) > 1 and all(before) and before == self._shares != self._reported:
            self._reported = self._shares
            say(f"the members have {' and '.join(str(len(share)) for share in before)} partitions")

    def _engines(self) -> list[str]:
        return [name for name in self._stage.parts if name.startswith("engine")]
