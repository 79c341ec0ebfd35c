"""What is left of a run: the numbers, the checker's verdict, and whether all of it is well.

Pure but for `print_summary`, which is called once, on the session's thread, after the live view is gone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from rich.text import Text

from ehkafka.cli.unread import PipedConsole, quiet_pipe
from ehkafka.wording import seconds

if TYPE_CHECKING:
    from ehkafka import EhkafkaError
    from ehkafka.testing import Verdict

VIOLATED_EXIT_CODE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of one run. `seconds` go from the first stored reading to the last finished one."""

    ended_by: str
    endpoint: str
    workers: int
    homes: int
    stored_records: int
    finished_records: int
    seconds: float
    lanes_max: int
    lag_records_max: int
    backlog_records_max: int
    alarms: int
    # None when the simulator was not heard to its end.
    alarms_expected: int | None
    left_early: bool
    failure: EhkafkaError | None
    verdict: Verdict

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, each as a sentence; empty when all is well."""
        verdict = self.verdict
        found = [
            f"The checker counted {name.replace('_', ' ')}: {n}." for name, n in verdict.violations.items()
        ]
        if verdict.duplicates_unexplained:
            found.append(
                f"The checker counted duplicates that nothing explains: {verdict.duplicates_unexplained}."
            )
        if verdict.finished != self.finished_records:
            found.append(
                f"The app counts {self.finished_records} finished readings, the checker {verdict.finished}."
            )
        if not verdict.finished:
            found.append("No reading was handled, so nothing was checked.")
        # A reading that is handled twice may raise its alarm twice.
        comparable = self.alarms_expected is not None and self.is_complete and not verdict.duplicates
        if comparable and self.alarms != self.alarms_expected:
            found.append(
                f"The homes raised {self.alarms} alarms; readings handled in order raise "
                f"{self.alarms_expected}."
            )
        return tuple(found)

    @property
    def is_complete(self) -> bool:
        """Whether every reading that was stored has been handled."""
        return self.finished_records >= self.stored_records

    @property
    def ok(self) -> bool:
        """Whether the app ran to its end and the checker found nothing."""
        return self.failure is None and not self.problems

    @property
    def exit_code(self) -> int:
        """0 only if all is well."""
        if self.problems and self.verdict.finished:
            return VIOLATED_EXIT_CODE
        if self.failure is not None:
            return self.failure.exit_code
        return 0 if self.ok else VIOLATED_EXIT_CODE

    @property
    def records_per_s(self) -> float:
        """The mean rate of the whole run, its end included."""
        return self.finished_records / self.seconds if self.seconds > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "ok": self.ok,
            "problems": list(self.problems),
            "failure": None if self.failure is None else str(self.failure),
            "ended_by": self.ended_by,
            "left_early": self.left_early,
            "endpoint": self.endpoint,
            "workers": self.workers,
            "homes": self.homes,
            "stored_records": self.stored_records,
            "finished_records": self.finished_records,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(self.records_per_s, 1),
            "lanes_max": self.lanes_max,
            "lag_records_max": self.lag_records_max,
            "backlog_records_max": self.backlog_records_max,
            "alarms": self.alarms,
            "alarms_expected": self.alarms_expected,
            "verdict": self.verdict.as_dict(),
        }


def print_summary(summary: Summary, *, as_json: bool) -> None:
    """Write the summary to stdout; as JSON it is all that stdout gets."""
    if as_json:
        with quiet_pipe():
            sys.stdout.buffer.write(orjson.dumps(summary.as_dict(), option=orjson.OPT_INDENT_2) + b"\n")
        return
    console = PipedConsole(highlight=False, soft_wrap=True)
    for line in summary_lines(summary):
        console.print(line)


def summary_lines(summary: Summary) -> list[Text]:
    """Return the summary for people; a bad one begins and ends with what is wrong."""
    verdict = summary.verdict
    lines = [
        _headline(summary),
        Text(
            f"  {_n(summary.finished_records)} of {_n(summary.stored_records)} readings of "
            f"{_n(summary.homes)} homes in {seconds(summary.seconds)}"
        ),
        Text(f"  {_n(round(summary.records_per_s))} per second, {summary.workers} workers, the checker on"),
        Text(
            f"  at most {_n(summary.lanes_max)} lanes, {_n(summary.backlog_records_max)} records of backlog, "
            f"{_n(summary.lag_records_max)} of lag"
        ),
        Text(f"  alarms {_n(summary.alarms)}, expected {_n(summary.alarms_expected)}"),
        Text(
            f"  order violations {verdict.order_violations}, premature commits {verdict.premature_commits}, "
            f"lost {verdict.lost}, unseen {verdict.unseen}"
        ),
        Text(f"  duplicates {verdict.duplicates}, commits {verdict.commits_acknowledged}"),
    ]
    if summary.left_early:
        missing = summary.stored_records - summary.finished_records
        lines.append(Text(f"  left early: {_n(missing)} readings without an outcome, not committed"))
    return lines + _problem(summary)


def _headline(summary: Summary) -> Text:
    if summary.problems:
        return Text(" VIOLATED: the promises were not kept ", style="bold white on red")
    if summary.failure is not None:
        return Text(" FAILED: the run did not come to its end ", style="bold white on red")
    return Text("OK: every promise was kept", style="bold green")


def _problem(summary: Summary) -> list[Text]:
    lines = [Text(f"  {problem}", style="bold red") for problem in summary.problems]
    for measure, sentences in summary.verdict.examples.items():
        lines += [Text(f"    {measure}: {sentence}", style="red") for sentence in sentences]
    if summary.failure is not None:
        lines.append(Text(f"  {summary.failure}", style="bold red"))
    if summary.problems:
        lines.append(
            Text("  This is a defect. Please report it with all of the lines above.", style="bold red")
        )
    return lines


def _n(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}".replace(",", " ")
