"""Tests of apps with worker processes: what their handlers do, send and raise is seen in the test."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.errors import HandlerFailedError
from ehkafka.testing import run
from tests.testing.in_test.in_test_handlers import double, doubled  # a process imports its handler by name


def test_a_handler_in_processes() -> None:
    """Its records are seen here; what raises there is raised here."""
    app = ehkafka.App(group="g", start="earliest")
    app.handler("numbers", workers=ehkafka.Processes(1))(double)
    with run(app) as t:
        t.send("numbers", "21")
        t.wait(30)
        assert [one.value for one in t.handled] == ["21"]
        t.send("numbers", "twenty")
        with pytest.raises(HandlerFailedError, match="twenty"):
            t.wait(30)


@pytest.mark.parametrize("acknowledged", ["before_commit", "before_next"])
def test_a_handler_in_processes_with_outputs(acknowledged: Any) -> None:
    """Its topics are made, what it sends is seen here, and a failure says what it was."""
    app = ehkafka.App(group="g", start="earliest")
    workers = ehkafka.Processes(2)
    app.handler("numbers", to=["doubles", "seen"], workers=workers, acknowledged=acknowledged)(doubled)
    with run(app) as t:
        for number in (1, 0, 2, 3):
            t.send("numbers", str(number), key="k")
        t.wait(30)
        assert [one.json() for one in t.outputs("doubles")] == [
            {"doubled": 2},
            {"doubled": 4},
            {"doubled": 6},
        ]
        assert [(one.key, one.value) for one in t.outputs("seen")] == [("k", "1"), ("k", "2"), ("k", "3")]
        t.send("numbers", "twenty", key="k")
        with pytest.raises(HandlerFailedError, match="twenty"):
            t.wait(30)
