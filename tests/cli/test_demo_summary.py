"""The demo's summary: good only if the checker says so, and loud when it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import ehkafka
from ehkafka.cli.demo.view import Summary
from ehkafka.testing import Measure, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD = Verdict(produced=1000, received=1000, finished=1000, commits_acknowledged=3, processes=1, epochs=16)
FACTS: Mapping[str, Any] = {
    "ended_by": "time",
    "left_early": False,
    "endpoint": "embedded",
    "workers": 16,
    "homes": 500,
    "stored_records": 1000,
    "finished_records": 1000,
    "seconds": 2.0,
    "records_per_s": 500.0,
    "lanes_max": 10,
    "lag_records_max": 20,
    "backlog_records_max": 30,
    "swapped": 0,
}
EXAMPLE = "readings[3]@17 started while readings[3]@16 of its key was not finished"
# What went wrong, and a part of the sentence that must say so.
BAD: Mapping[str, tuple[dict[str, Any], str]] = {
    "order": ({"verdict": replace(GOOD, order_violations=2)}, "order violations: 2"),
    "premature": ({"verdict": replace(GOOD, premature_commits=1)}, "premature commits: 1"),
    "lost": ({"verdict": replace(GOOD, lost=4)}, "lost: 4"),
    "unseen": ({"verdict": replace(GOOD, unseen=1)}, "unseen: 1"),
    "unexplained": (
        {"verdict": replace(GOOD, duplicates=1, duplicates_unexplained=1)},
        "nothing explains: 1",
    ),
    "miscounted": ({"finished_records": 1001}, "The app counts 1001 finished readings, the checker 1000"),
    "nothing judged": ({"verdict": Verdict(), "finished_records": 0}, "No reading was handled"),
    "swapped readings": ({"swapped": 8}, "readings before an earlier one: 8."),
}


def summary(*, failure: Exception | None = None, verdict: Verdict = GOOD, **facts: object) -> Summary:
    """Return the summary of a run that went well but for this."""
    return Summary({**FACTS, **facts}, verdict, failure)  # type: ignore[arg-type]


def test_a_good_run_is_ok() -> None:
    """Nothing found, something looked at: exit code 0."""
    assert summary().as_dict()["ok"]
    assert summary().exit_code == 0
    assert _text(summary()).startswith("OK: every promise was kept")
    assert "500 per second" in _text(summary())


@pytest.mark.parametrize("case", BAD)
def test_a_bad_verdict_is_loud(case: str) -> None:
    """The first line, the sentence, the request to report and the exit code all say it."""
    changes, sentence = BAD[case]
    bad = summary(**changes)
    assert not bad.as_dict()["ok"]
    assert bad.exit_code == 1
    shown = _text(bad)
    assert "VIOLATED" in shown.splitlines()[0]
    assert "OK" not in shown
    assert sentence in shown
    assert "Please report it" in shown.splitlines()[-1]


def test_a_bad_verdict_shows_its_examples() -> None:
    """The checker's sentences are what a report needs."""
    verdict = replace(GOOD, order_violations=1, examples={Measure.ORDER: (EXAMPLE,)})
    assert f"order_violations: {EXAMPLE}" in _text(summary(verdict=verdict))


@pytest.mark.parametrize("verdict", [GOOD, replace(GOOD, order_violations=2)])
def test_the_json_says_whether_it_is_ok(verdict: Verdict) -> None:
    """A program reads the same judgement as a person."""
    shown = json.loads(orjson.dumps(summary(verdict=verdict).as_dict()))
    assert shown["ok"] is shown["verdict"]["ok"] is verdict.ok
    assert shown["records_per_s"] == 500.0


def test_a_failed_app_keeps_its_exit_code() -> None:
    """A run that an error ended is no success, even if the checker found nothing in it."""
    failed = summary(failure=ehkafka.errors.EndpointError("The broker is gone."))
    assert failed.exit_code == ehkafka.errors.EndpointError.exit_code
    assert "FAILED" in _text(failed)
    assert "The broker is gone." in _text(failed)


def test_a_violation_outweighs_a_failure() -> None:
    """Whoever looks only at the exit code must learn of the violation."""
    error = ehkafka.errors.EndpointError("The broker is gone.")
    assert summary(failure=error, verdict=replace(GOOD, lost=1)).exit_code == 1


def test_leaving_early_names_what_is_missing() -> None:
    """Readings that nobody waited for are reported, and are no violation."""
    left = summary(left_early=True, finished_records=900, verdict=replace(GOOD, finished=900))
    assert left.exit_code == 0
    assert "left early: 100 readings without an outcome" in _text(left)


def test_a_redelivered_reading_is_no_violation() -> None:
    """Duplicates within their bound are reported, and all is well."""
    assert summary(verdict=replace(GOOD, duplicates=3, duplicates_bound=5)).exit_code == 0


def _text(reported: Summary) -> str:
    return reported.text().plain
