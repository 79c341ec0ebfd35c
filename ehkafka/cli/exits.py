"""How a command ends: one message on stderr and the exit code of what happened.

Wrapped around the body of every command, on the main thread. It must never print a traceback for an
error that the user can fix, and never hide one that only we can.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, NoReturn

import typer

import ehkafka
from ehkafka.cli.log_setup import logged_as_json
from ehkafka.members.logs import writes_json
from ehkafka.wording.answers import answer_to, with_answer
from ehkafka.wording.error_stack import place_of
from ehkafka.wording.line import printable
from ehkafka.wording.secrets import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CODES: Final = """\
0   the app or command stopped as requested, and finished every started record
1   a handler failed
2   a setting, an argument or the app's code is wrong; nothing was started
3   the broker cannot be reached, refuses access, or lacks the topic or offset; or a file cannot be written
4   some records are handled again: a stop or a run --until-caught-up left them unfinished or uncommitted
5   another process has the same group.instance.id, or consumes in the group that the command must move
6   the lag is above --fail-over, or a commit is outside its log
7   an action on a key, a partition or a handler was refused; nothing changed
70  a defect in ehkafka, or an unexpected error
130 Ctrl-C interrupted a start, an on_stop function or a redrive, or a signal ended export or produce"""
LAGGING: Final = 6
UNEXPECTED: Final = 70
INTERRUPTED: Final = 130
NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def ended_by_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call `end` at SIGTERM and at the terminal's end, while the block runs. Main thread only."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), lambda *_: end()) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def interrupt() -> NoReturn:
    """End the command as Ctrl-C does."""
    raise KeyboardInterrupt


@contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Turn whatever the block raises into a message and `typer.Exit` with its code."""
    try:
        yield
    except ehkafka.EhkafkaError as error:
        if debug:
            traceback.print_exception(error)
        say_error(error)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        say("interrupted; the app does not run.")
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            forget_stdout()
            where = f" for {error.filename}" if error.filename else ", where the output goes"
            say(f"the disk has no space left{where}. Free some space, or write to another disk.")
            raise typer.Exit(ehkafka.errors.EndpointError.exit_code) from None
        if not logged_as_json("ended by an error that it did not expect.", error):
            traceback.print_exception(error)
            where = answer_to("", ehkafka.errors.EngineError.__name__)
            say(f"the command stopped because of the unexpected error above. {where}")
        raise typer.Exit(UNEXPECTED) from None


def forget_stdout() -> None:
    """Keep the interpreter from writing the rest when it ends. Without a file behind it there is none."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say_error(error: ehkafka.EhkafkaError) -> None:
    """Write an error as one message; for a handler's error also where it was raised."""
    # What a person typed may be in it. A handler's error may have lines of its own.
    text = with_answer(str(error), error)
    (say_line if isinstance(error, ehkafka.errors.ConfigurationError) else say)(text)
    if isinstance(error, ehkafka.errors.HandlerFailedError) and error.__cause__ is not None:
        where = place_of(error.__cause__)
        if where and not writes_json():
            typer.echo(f"  raised in {where}", err=True)


def say_line(text: str) -> None:
    """Write one message as one line, without a secret, shortened in its middle."""
    say(one_line(text))


def say(text: str) -> None:
    """Write one message to stderr, marked as ours."""
    if logged_as_json(_clean(text)):
        return
    typer.secho("ehkafka: ", fg=typer.colors.RED, bold=True, nl=False, err=True)
    typer.echo(_clean(text), err=True)


def note(text: str) -> None:
    """Write one line to stderr that is no error, marked as ours."""
    if logged_as_json(_clean(text), level=logging.INFO):
        return
    typer.echo(f"ehkafka {_clean(text)}", err=True)


def _clean(text: str) -> str:
    # A broker's own words may be in it. Lines are ours.
    return "\n".join(map(printable, text.split("\n")))
