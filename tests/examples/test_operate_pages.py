"""The pages that a person reads at night agree with the code: exit codes, metrics, symptoms, quoted lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml

from ehkafka.cli.exits import CODES
from ehkafka.telemetry.catalogue import APP, HANDLER, MEMBER, PARTITION, Metric
from ehkafka.wording.answers import PAGE
from tests.examples.test_kubernetes_example import VERSIONS
from tests.kit.pages import ROOT, blocks_of

if TYPE_CHECKING:
    from pathlib import Path

OPERATE = ROOT / "docs" / "operate"
EXIT_CODES, RUNBOOK = OPERATE / "exit-codes.md", OPERATE / "runbook.md"
KNOWN = dict(line.split(maxsplit=1) for line in CODES.splitlines())
# An orchestrator that repeats these repeats the message.
ROWS = re.findall(r"^\| \[(\d+)\]\(#(\S+)\) \| (.+) \| (.+) \|$", EXIT_CODES.read_text(), re.MULTILINE)
NEVER_AGAIN = {"2", "5"}


def test_each_exit_code_has_its_row_and_its_section() -> None:
    """By the words of `ehkafka --help`, in its order."""
    sections = re.findall(r"^### (\d+): ", EXIT_CODES.read_text(), re.MULTILINE)
    assert {code: meaning for code, _, meaning, _ in ROWS} == KNOWN
    assert [code for code, *_ in ROWS] == sections == list(KNOWN)
    assert {code for code, *_, again in ROWS if again == "no"} - {"0", "130"} == NEVER_AGAIN


def test_the_settings_of_orchestrators_fit_the_table() -> None:
    """Kubernetes knows each field; the Job fails for what no restart cures; systemd starts nothing again."""
    (job,) = (yaml.safe_load(block.text) for block in blocks_of(EXIT_CODES) if block.language == "yaml")
    for version in VERSIONS:
        kubernetes_validate.validate(job, version, strict=True)
    codes = job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
    assert set(map(str, codes)) == NEVER_AGAIN
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert f"RestartPreventExitStatus={' '.join(sorted(NEVER_AGAIN))}" in EXIT_CODES.read_text()


@pytest.mark.parametrize("page", sorted(OPERATE.glob("*.md")), ids=lambda page: page.name)
def test_each_metric_that_a_page_names_exists(page: Path) -> None:
    """A person at night looks for it."""
    metrics: tuple[Metric[Any], ...] = (*APP, *HANDLER, *PARTITION, *MEMBER)
    named = set(re.findall(r"\behkafka_[a-z_]+", page.read_text()))
    assert named <= {metric.name for metric in metrics}


def test_each_symptom_has_a_section_that_says_how_to_know_it_is_over() -> None:
    """The table at the top leads to all of them, in their order."""
    text = RUNBOOK.read_text()
    symptoms = re.findall(r"\]\(#([a-z-]+)\) \|$", text.partition("\n## ")[0], re.MULTILINE)
    sections = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert symptoms == [one.partition("\n")[0].lower().replace(" ", "-") for one in sections]
    for section in sections:
        assert "**The problem is over when**" in section, section[:40]
        assert "```console" in section, section[:40]


def test_lines_are_quoted_with_the_place_that_they_end_with() -> None:
    """As the log has them: what answers a line is part of it."""
    anchors = set(re.findall(r"^### (.*)$", (ROOT / PAGE).read_text(), re.MULTILINE))
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in anchors}
    quoted = [block.text for page in (EXIT_CODES, RUNBOOK) for block in blocks_of(page)]
    named = set(re.findall(rf"See {re.escape(PAGE)}#([a-z-]+)\.", "".join(quoted)))
    assert named
    assert named <= anchors
