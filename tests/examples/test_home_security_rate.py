"""`scripts/home_security_rate` measures what it has started itself, Kafka and Azurite aside."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pytest

from tests.kit.pages import ROOT


def test_memory_is_counted_by_kind_without_what_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the driver; a Python that it has started counts, unless it is set aside."""
    pytest.importorskip("pyspark")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    rate = importlib.import_module("_home_security_rate_run")
    program = [sys.executable, "-c", "print('up', flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        sizes = rate.resident_bytes(os.getpid(), set())
        without = rate.resident_bytes(os.getpid(), {child.pid})
        child.communicate(b"\n")
    assert sizes["driver"] > 0
    assert without["python"] < sizes["python"]
