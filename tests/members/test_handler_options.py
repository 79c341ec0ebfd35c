"""Options of handlers that stand outside of the code reach the members, too."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.members.conftest import LIMIT_S, SHOP

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

SHOWING = """
    @app.on_start
    def show():
        spec, = app._options().specs
        print("OPTIONS", spec.workers, spec.deadline_s, spec.max_age)
"""


def test_each_member_runs_its_handlers_with_what_the_supervisor_was_given(
    start: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a variable, which members have as well, and of a flag, which they have not."""
    monkeypatch.setenv("EHKAFKA_HANDLER_HANDLE_WORKERS", "7")
    flags = ("--set", "handle.deadline_s=2.5", "--set", "handle.max_age=1h")
    program = start("run", "shop", "--members", "2", *flags, parts=(SHOP, SHOWING))
    program.wait_until_ready()
    program.wait_for_match(r"\[[12]\] OPTIONS 7 2.5 1:00:00", 2, LIMIT_S)
    program.signal(signal.SIGTERM)
    assert program.end(LIMIT_S) == 0
