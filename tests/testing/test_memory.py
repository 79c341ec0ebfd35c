"""Memory in use and its slope, as the soak measures them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.kit.memory import slope_mb_per_hour, tree_mb


def test_a_straight_line_has_its_slope() -> None:
    """1 MB a minute is 60 an hour, whatever the noise around it."""
    samples = [(second, 100 + second / 60 + (-1) ** second) for second in map(float, range(600))]
    assert slope_mb_per_hour(samples) == pytest.approx(60.0, abs=0.5)


def test_children_count() -> None:
    """A process that lives below ours is part of ours; one that is gone takes nothing."""
    before = tree_mb(os.getpid())
    code = "import sys; block = bytearray(b'x' * 60_000_000); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        assert tree_mb(os.getpid()) - before > 50
        child.communicate()
    assert tree_mb(child.pid) == 0.0
