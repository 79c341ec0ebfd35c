"""Watches Python files, and starts the app's process again when one changes. Main thread, and no other.

The app is never imported here: what it raises, and whatever it leaves in memory, is its own process's. That
one is stopped as by SIGTERM, so it finishes what has started, commits and leaves the group before the next
one begins. Needs the extra `[reload]`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ehkafka.cli.exits import note
from ehkafka.cli.options import only_with
from ehkafka.errors import ConfigurationError, describe
from ehkafka.members.commands import caught
from ehkafka.wording import ended
from ehkafka.wording.extras import install

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# How long signals and the end of the child may wait for a look.
TURN_MS: Final = 200
# An editor that saves many files makes one restart of them, if it takes no longer than this.
TOGETHER_MS: Final = 400
_MAIN: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from ehkafka.cli.reload.child import main; "
    "main(int(sys.argv[2]), *sys.argv[3:])"
)
_FLAGS: Final = ("--reload",)
_WITH_VALUE: Final = ("--reload-dir",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reload:
    """What was given for a reload."""

    reload: Annotated[
        bool, typer.Option("--reload", help="For development: restart the app when a Python file changes.")
    ] = False
    reload_dirs: Annotated[
        list[Path] | None,
        typer.Option(
            "--reload-dir",
            metavar="DIR",
            help="Watch this folder instead of the current one; may be given several times.",
        ),
    ] = None

    def check(self, *, members: str | None, on_spark: bool) -> None:
        """Refuse what cannot be together. Raises `ConfigurationError`."""
        if not self.reload:
            only_with("--reload", self)
            return
        if members is not None:
            raise ConfigurationError(
                "--reload and --members exclude each other: leave one out. To replace the members one by "
                "one with new code, send SIGHUP to the command."
            )
        if on_spark:
            raise ConfigurationError(
                "--reload and --engine spark exclude each other: leave one out. A Spark session starts "
                "slowly, so develop the app without --engine spark first."
            )
        for folder in self.reload_dirs or ():
            if not folder.is_dir():
                raise ConfigurationError(f"--reload-dir {folder}: the folder does not exist.")

    def watched(self, app: str) -> tuple[Path, ...]:
        """Return the folders to watch: the given ones, else the current one and that of the app's file."""
        if self.reload_dirs:
            return tuple(self.reload_dirs)
        here, file = Path.cwd(), Path(app.partition(":")[0])
        own = file.resolve().parent
        return (here,) if file.suffix != ".py" or own.is_relative_to(here) else (here, own)


def run_reloading(folders: Sequence[Path], words: Sequence[str]) -> int:
    """Run the command of these words again and again until a signal ends it; return its exit code.

    Raises `ConfigurationError`.
    """
    try:
        import watchfiles  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise ConfigurationError(
            f"--reload needs the extra [reload], which is not installed. Run: {install('reload')}."
        ) from None
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # each change has a line of ours
    is_python = watchfiles.PythonFilter()
    reloading = Reloading([words[0], *without_reload(words[1:])])
    note(f"watches {', '.join(map(str, folders))} for changes of Python files.")
    with caught(reloading.signals):
        # Unfiltered: a log that grows in the same folder must not keep this from looking at the child.
        changes = watchfiles.watch(
            *folders,
            watch_filter=None,
            debounce=TOGETHER_MS,
            rust_timeout=TURN_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        try:
            _begin(changes)
            found: Iterable[tuple[watchfiles.Change, str]] = ()
            while (code := reloading.turn({path for of, path in found if is_python(of, path)})) is None:
                found = next(changes)
            return code
        finally:
            reloading.close()


def _begin(changes: Iterator[object]) -> None:
    """Wait until the watch has begun, so that it misses nothing. Raises `ConfigurationError`."""
    try:
        next(changes)
    except (OSError, RuntimeError) as error:  # the latter for whatever its Rust has no better word for
        raise ConfigurationError(
            f"--reload cannot watch the folders: {ended(describe(error))} Name smaller folders with "
            f"--reload-dir."
        ) from None


def without_reload(words: Iterable[str]) -> list[str]:
    """Return arguments without those that ask for the reload: the child's."""
    left, rest = list[str](), deque(words)
    while rest:
        word = rest.popleft()
        if word == "--":
            return [*left, word, *rest]
        if word in _WITH_VALUE and rest:
            rest.popleft()
        elif word.partition("=")[0] not in (*_FLAGS, *_WITH_VALUE):
            left.append(word)
    return left


class Reloading:
    """The app's process, and what becomes of it. Call `turn` again and again, and `close` in the end."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        # Put down by the handlers of signals, in this same thread.
        self.signals: deque[str] = deque()
        self._child: subprocess.Popen[bytes] | None = None
        # What has changed since the child began; a first start needs no change.
        self._changed: set[str] = set()
        self._is_first = True
        self._is_ending = False

    def turn(self, changed: Iterable[str]) -> int | None:
        """Do what is due; return the exit code when all has ended."""
        self._take_signals()
        self._change(set(changed))
        if self._child is not None and (code := self._child.poll()) is not None:
            self._child = None
            if self._is_ending:
                return code if code >= 0 else 128 - code
            if not self._changed:
                note(
                    f"the app has stopped with exit code {code}; --reload starts it again at the next "
                    f"change of a Python file."
                )
        if self._child is None:
            if self._is_ending:
                return 0  # nothing ran
            if self._changed or self._is_first:
                self._start()
        return None

    def close(self) -> None:
        """Kill what still runs."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    def _change(self, changed: set[str]) -> None:
        if not changed or self._is_ending:
            return
        if not self._changed:
            note(f"{'starts' if self._child is None else 'restarts'} the app: {_shown(changed)} changed.")
            # Once: a second signal would cut short what the first one lets it finish.
            if self._child is not None:
                self._child.terminate()
        self._changed |= changed

    def _start(self) -> None:
        self._changed, self._is_first = set(), False
        root = str(Path(__file__).parents[3])
        options = [f"-W{option}" for option in sys.warnoptions]
        # Without -B an edit within the same second as the last one, and of the same length, would find that
        # one's bytecode and be taken for it.
        self._child = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-P", "-B", *options, "-c", _MAIN, root, str(os.getpid()), *self._words]
        )

    def _take_signals(self) -> None:
        while self.signals:
            name = self.signals.popleft()
            # One that stops already for a change goes on with that.
            is_new = self._is_ending or not self._changed
            self._is_ending = True
            # In a terminal Ctrl-C has reached the child as well, and counts once.
            has_it = name == "SIGINT" and has_foreground()
            if self._child is not None and is_new and not has_it:
                self._child.send_signal(signal.SIGINT if name == "SIGINT" else signal.SIGTERM)


def has_foreground() -> bool:
    """Tell whether the terminal's Ctrl-C reaches this process, and so all that it has started."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:  # it hung up
        return False
    finally:
        os.close(terminal)


def _shown(changed: Iterable[str]) -> str:
    """Return one of the files as it is seen from here, and how many more there are."""
    here, (first, *others) = Path.cwd(), sorted(changed)
    path = Path(first)
    name = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{name} and {len(others)} more have" if others else f"{name} has"
