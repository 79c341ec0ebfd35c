"""A chain of groups sends as is promised; each promise that a broken client breaks is seen.

`scripts/proof` runs whole chains on three brokers, with all faults.
"""

from __future__ import annotations

import pytest

from tests.proof.by_hand import BROKEN
from tests.proof.options import BY_HAND, MODES, WORKERS
from tests.proof.run import check

EACH_MODE = pytest.mark.parametrize("mode", MODES)


@pytest.mark.broker
@EACH_MODE
def test_a_group_of_all_kinds_of_workers_of_which_members_are_killed_and_stopped(mode: str) -> None:
    """Each takes over what another one has left, with refused outputs and ranges that do not fit.

    A guest comes and goes. Exactly once, attempts that fail or skip have sent, which no reader sees.
    """
    group = ["--kind", ",".join(WORKERS), "--members", str(len(WORKERS))]
    group += ["--strict"] if mode == MODES[1] else []
    faults = ["--faults", "kill,stop,rebalance", "--seconds", "8", "--metadata-bytes", "64"]
    result = check("--mode", mode, *group, *faults, "--rate", "80", "--refused-every", "300")
    assert not result["violations"], f"FACT: {result}"
    assert result["faults"]["kill"], result
    assert result["ranges_seen"], result
    assert result["letters"], result


@pytest.mark.broker
def test_an_app_a_plain_client_and_a_drop_in_replace_each_other_in_one_group() -> None:
    """Each is stopped and started in turn, so partitions go from any of them to any other and back."""
    group = ["--kind", ",".join(["threads", *BY_HAND]), "--members", "3", "--rate", "80"]
    result = check(*group, "--faults", "roll", "--seconds", "5", "--refused-every", "0")
    assert not result["violations"], f"FACT: {result}"
    assert result["faults"]["roll"], result


@pytest.mark.broker
def test_each_broken_client_is_found() -> None:
    """Four groups in a chain, each by a loop that breaks a promise; of each just that is found.

    The last one claims to work exactly once.
    """
    modes = ",".join([*["at-least-once"] * 3, "exactly-once"])
    chain = ["--levels", "4", "--mode", modes, "--kind", "plain", "--members", "1"]
    how = ["--faults", "none", "--seconds", "1", "--rate", "200", "--keys", "20", "--refused-every", "0"]
    found = check(*chain, *how, "--broken", ",".join(BROKEN))
    by_level = {BROKEN[level]: {*kinds} for level, kinds in found["by_level"].items()}
    # A record that is left out is passed by the next one, and what is swapped may end its key.
    assert by_level.pop("swap") - {"last"} == {"order"}, found
    # Its outputs are seen before their commit for a moment only.
    assert by_level.pop("twice") - {"uncovered"} == {"repeated"}, found
    assert by_level == {"ahead": {"early"}, "drop": {"lost", "early", "order"}}, found
    assert any("of level-1/" in line and "by 1-0." in line for line in found["evidence"]), found


@pytest.mark.broker
def test_a_chain_of_both_modes_on_three_brokers_of_which_one_is_killed_and_leaders_move() -> None:
    """The short form of `scripts/proof`: three groups, of which members are killed, too."""
    modes = "exactly-once,at-least-once,exactly-once"
    chain = ["--brokers", "3", "--levels", "3", "--mode", modes, "--kind", "threads,tasks", "--members", "2"]
    faults = ["--faults", "kill,broker-kill,leaders", "--pause", "1,3", "--node-pause", "0.2,0.5"]
    how = ["--seconds", "8", "--rate", "80", "--refused-every", "300", "--metadata-bytes", "64"]
    result = check(*chain, *faults, *how)
    assert not result["violations"], f"FACT: {result}"
    assert all(result["faults"][name] for name in ("kill", "broker-kill", "leaders")), result
    assert min(result["records_by_level"]) > 500, result
