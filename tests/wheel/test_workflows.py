"""The workflows of a public CI: what they call is there, and they may do no more than they need.

No server has run them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

from tests.kit.pages import ROOT

FOLDER = ROOT / ".github" / "workflows"
# The base loader leaves `on` a text.
WORKFLOWS = {path.stem: yaml.load(path.read_text(), yaml.BaseLoader) for path in FOLDER.glob("*.yml")}
JOBS = {f"{name}.{job}": body for name, flow in WORKFLOWS.items() for job, body in flow["jobs"].items()}
STEPS = [step for job in JOBS.values() for step in job["steps"]]
COMMANDS = [step["run"].splitlines() for step in STEPS if "run" in step]
OF_THE_RUNNER = {"python", "sha256sum"}

of_each = pytest.mark.parametrize("name", JOBS)


def test_no_job_may_do_more_than_it_needs() -> None:
    """All read the repository; the one that publishes proves its identity in an environment with a guard."""
    assert [flow["permissions"] for flow in WORKFLOWS.values() if flow["permissions"]] == [
        {"contents": "read"}
    ]
    granted = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert granted == {
        "release.build": {"contents": "read"},
        "release.publish": {"attestations": "write", "id-token": "write"},
    }
    assert JOBS["release.publish"]["environment"]
    assert "secrets." not in "".join(path.read_text() for path in FOLDER.iterdir())


def test_actions_are_commits_and_leave_no_token_behind() -> None:
    """A tag can be moved. A checkout would keep the job's token in the folder."""
    uses = re.findall(r"uses: (.*)", "".join(path.read_text() for path in FOLDER.iterdir()))
    assert len(uses) == len([step for step in STEPS if "uses" in step])
    assert [one for one in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one)] == []
    for step in STEPS:
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": "false"}


@of_each
def test_a_job_ends_in_time_on_a_named_system(name: str) -> None:
    """And shows no text of others to a shell."""
    job = JOBS[name]
    assert int(job["timeout-minutes"]) <= 180
    assert re.fullmatch(r"ubuntu-\d\d\.\d\d", job["runs-on"])
    assert not any("${{" in step.get("run", "") for step in job["steps"])


def test_the_commands_are_there_with_their_options() -> None:
    """Those of the checkout can be run and list each option that they are given."""
    helped: dict[str, str] = {}
    for words in (line.split() for lines in COMMANDS for line in lines):
        if words[0] in OF_THE_RUNNER:
            continue
        assert os.access(ROOT / words[0], os.X_OK), words[0]
        if words[0].startswith("scripts/") and words[0] not in helped:
            helped[words[0]] = subprocess.check_output([sys.executable, ROOT / words[0], "--help"], text=True)
        assert all(word in helped[words[0]] for word in words if word.startswith("--")), words


def test_each_python_of_the_metadata_is_tested() -> None:
    """By all tests where a change arrives, and by the core of a release."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {one[1] for line in project["classifiers"] if (one := re.fullmatch(r".*:: (3\.\d+)", line))}
    assert set(JOBS["test.all"]["strategy"]["matrix"]["python"]) == named
    (several,) = [step for step in JOBS["release.build"]["steps"] if "python-version" in step.get("with", {})]
    assert set(several["with"]["python-version"].split()) == named
