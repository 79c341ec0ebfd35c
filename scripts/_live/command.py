"""The command: the question before it starts, the run, its cleaning up and its report."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from _live import plan
from _live.cleaning import clean, names_of_run
from _live.given import given
from _live.ledger import PREFIX, RUN, Ledger, state_folder
from _live.names import Names
from _live.options import parser
from _live.probe import NotTried, Status
from _live.progress import Progress
from _live.report import Report
from _live.run import Run
from _live.site import Site
from _live.waits import Waits
from ehkafka.errors import ConfigurationError, EhkafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from _live.given import Given
    from _live.probe import Probe, Result
    from ehkafka import Endpoint

DIFFERS, NOT_STARTED, LEFT, UNTRIED, INTERRUPTED = 1, 2, 3, 4, 130


def main(arguments: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Run the command and return its exit code."""
    environ = dict(os.environ if environ is None else environ)
    options = parser().parse_args(arguments)
    # What the engine logs is in its events; a handler that does nothing keeps it off the terminal.
    logging.getLogger("ehkafka").addHandler(logging.NullHandler())
    try:
        probes = plan.chosen(options.only)
        found = given(options, environ)
        folder = options.state or state_folder(environ)
        if options.clean or options.run:
            return _clean_left(found, folder, options.run)
        return _run(options, found, folder, probes)
    except EhkafkaError as error:
        print(error, file=sys.stderr)
        return NOT_STARTED


def _run(options: argparse.Namespace, found: Given, folder: Path, probes: Sequence[Probe]) -> int:
    ledger = Ledger.begin(folder, found.namespace)
    print(plan.shown(found, probes, ledger.prefix))
    if not options.yes and not _agreed():
        print("Nothing was done.")
        return NOT_STARTED
    began_s = time.monotonic()
    site = Site(found, ledger, Waits(options.scale))
    progress = Progress(probes, sys.stdout)
    run = Run(site, probes, progress)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.go()
    finally:
        # Also after an unforeseen error: nothing may be left because of it.
        progress.close()
        left = _cleaned(site)
        signal.signal(signal.SIGTERM, before)
    names = Names(found, ledger) if options.redact else None
    report = Report(site=site, results=run.results, left=left, took_s=time.monotonic() - began_s, names=names)
    page, data = report.write(options.report)
    print(f"\nThe report: {page}, and for machines {data}. Please put the page into an issue.")
    if run.was_interrupted:
        return INTERRUPTED
    return LEFT if left else code_of(run.results, options.only)


def code_of(results: Sequence[Result], only: Sequence[str] | None) -> int:
    """Return the code of a run that ended and left nothing.

    What is tried only because others need it is no success: of a run without `--only`, that are the probes
    that others need.
    """
    if any(result.status is Status.DIFFERS for result in results):
        return DIFFERS
    needed = {need for probe in plan.PROBES for need in probe.needs}
    asked = [one for one in results if (one.name in only if only else one.name not in needed)]
    return UNTRIED if all(one.status is Status.UNTRIED for one in asked) else 0


def _agreed() -> bool:
    if not sys.stdin.isatty():
        print("There is no terminal to ask on: read the above and give --yes.")
        return False
    try:
        return input("\nStart? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _cleaned(site: Site) -> dict[str, str]:
    """Close what is open and remove what was created; a second Ctrl-C ends that."""
    try:
        site.close()
        if not (site.ledger.topics or site.ledger.groups or site.ledger.blobs):
            return {}
        # Its own: the run's is closed.
        with site.given.endpoint() as endpoint:
            left = clean(site.ledger, endpoint, site.given.mirror)
    except (KeyboardInterrupt, EhkafkaError, NotTried, OSError) as error:
        left = dict.fromkeys(
            [*site.ledger.topics, *site.ledger.groups, *site.ledger.blobs],
            "interrupted" if isinstance(error, KeyboardInterrupt) else str(error),
        )
    _show_left(left)
    return left


def _show_left(left: Mapping[str, str]) -> None:
    if not left:
        print("Everything that was created is removed.")
        return
    for name, reason in left.items():
        print(f"Not removed: {name}: {reason}")
    print("To try again: scripts/live NAMESPACE --clean")


def _clean_left(found: Given, folder: Path, run: str | None) -> int:
    """Remove what earlier runs have left: what a ledger names, or the names of the run that a person gave."""
    if run is not None and not RUN.fullmatch(run):
        raise ConfigurationError(f"--run {run!r:.40} has not the form of a run: 16 hexadecimal digits.")
    with found.endpoint() as endpoint:
        ledgers = [one for one in Ledger.left_in(folder, found.namespace) if run in (None, one.run)]
        known = {name for ledger in ledgers for name in ledger.topics}
        mine = [one for one in ledgers if one.take()]
        for ledger in ledgers:
            if ledger not in mine:
                print(f"Run {ledger.run} is under way, or has just ended: nothing of it is removed here.")
        if run is not None and not ledgers:
            mine = [_found_ledger(Ledger.of_run(folder, found.namespace, run), endpoint)]
        left: dict[str, str] = {}
        for ledger in mine:
            print(f"Run {ledger.run}: {len(ledger.topics)} topics, {len(ledger.groups)} groups")
            left |= clean(ledger, endpoint, found.mirror)
        _show_left(left)
        others = [name for name in names_of_run(endpoint, PREFIX)[0] if name not in known]
    for other in sorted({name.removeprefix(PREFIX)[:16] for name in others}):
        print(f"Run {other} has topics here, but no ledger on this machine. If it is yours: --run {other}")
    return LEFT if left or (len(mine) < len(ledgers) and run is not None) else 0


def _found_ledger(ledger: Ledger, endpoint: Endpoint) -> Ledger:
    for kind, names in zip(("topics", "groups"), names_of_run(endpoint, ledger.prefix), strict=True):
        for name in names:
            ledger.add(kind, name)
    return ledger
