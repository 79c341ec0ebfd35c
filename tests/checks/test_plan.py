"""What the steps wait for: pure rules, without a broker."""

from __future__ import annotations

import pytest

from ehkafka.checks.result import CheckResult, Report, Status
from ehkafka.checks.run import AUTH, SETTINGS, TOKEN, Key, blocker, steps_after_settings

STEPS = steps_after_settings(["a:1", "b:1"], ["orders"], has_token=True, has_mirror=True)
BY_KEY = {step.key: step for step in STEPS}


def test_each_address_and_topic_has_its_own_steps() -> None:
    """The plan goes from the network up, and every step is there once."""
    names = [step.key.name for step in STEPS]
    assert names == [
        *("dns", "tcp", "tls", "kafka") * 2, "token", "auth", "topic", "partitions", "group", "offsets",
        "clock", "commit", "mirror",
    ]  # fmt: skip
    assert len(BY_KEY) == len(STEPS)


def test_without_a_mirror_there_is_no_step_for_one() -> None:
    """The command checks no more than the settings name."""
    steps = steps_after_settings(["a:1"], [], has_token=False)
    assert Key("mirror") not in {step.key for step in steps}


def test_every_need_is_a_step_that_comes_before() -> None:
    """No step waits for one that never comes."""
    seen = {SETTINGS}
    for step in STEPS:
        assert {*step.needs, *step.needs_one} <= seen, step
        seen.add(step.key)


def test_one_reachable_address_is_enough() -> None:
    """A dead bootstrap server is reported, and holds up no check while another one answers."""
    statuses = dict.fromkeys([SETTINGS, TOKEN], Status.OK)
    doors = {Key("kafka", "a:1"): Status.SKIPPED, Key("kafka", "b:1"): Status.OK}
    assert blocker(BY_KEY[AUTH], statuses | doors) is None
    doors[Key("kafka", "b:1")] = Status.FAILED
    assert blocker(BY_KEY[AUTH], statuses | doors) == Key("kafka", "a:1")


@pytest.mark.parametrize(
    ("status", "holds_up"),
    [(Status.OK, False), (Status.NOT_MEASURED, False), (Status.FAILED, True), (Status.SKIPPED, True)],
)
def test_what_holds_up_the_next_step(status: Status, holds_up: bool) -> None:
    """A step that does not apply lets the next one go ahead; one that failed or was skipped does not."""
    found = blocker(BY_KEY[Key("kafka", "a:1")], {Key("tls", "a:1"): status})
    assert (found is not None) is holds_up


def test_the_first_failure_decides_the_exit_code() -> None:
    """A setting that is wrong is the cause of what follows."""

    def report(*codes: int) -> Report:
        results = tuple(
            CheckResult(name="x", status=Status.FAILED if code else Status.OK, text="", exit_code=code)
            for code in codes
        )
        return Report(endpoint="e", group=None, topics=(), results=results)

    assert report(0, 0).exit_code == 0
    assert report(0, 2, 3).exit_code == 2
    assert report(3, 2).exit_code == 3
