"""What a test cannot ask of `run`, and which words say so."""

from __future__ import annotations

from typing import Any

import pytest

import ehkafka
from ehkafka.errors import ConfigurationError
from ehkafka.testing import run


def _app(**options: Any) -> ehkafka.App:
    return ehkafka.App(group="g", start="earliest", **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.send("a", object()), "value: a object cannot be sent"),
        (lambda t: t.send("a", {"n": object()}), "value: a dict cannot be sent as JSON"),
        (lambda t: t.send("a", {1, 2}), "value: a set cannot be sent"),
        (lambda t: t.send("a", "x", key=5), "key: a int is neither text nor bytes"),
        (lambda t: t.send("a", "x", headers={"h": 5}), "header 'h': a int"),
        (lambda t: t.send("a", "x", headers=["h"]), "headers: give a dict"),
        (lambda t: t.send("a", "x", headers=5), "headers: give a dict"),
        (lambda t: t.send("a", "\ud800"), "value: .*surrogates"),
        (lambda t: t.send("a", "x", timestamp=2**70), "timestamp="),
        (lambda t: t.send("a", "x", partition=4), "partition=4: the topic has the partitions 0 to 3"),
        (lambda t: t.send("a", "x", partition=-1), "partition=-1"),
        (lambda t: t.send("a", "x", timestamp=-1), "timestamp=-1"),
        (lambda t: t.send("", "x"), "topic"),
        (lambda t: t.wait(timeout_s=-1), r"wait\(timeout_s=-1\)"),
    ],
)
def test_what_cannot_be_is_refused_in_words(call: Any, message: str) -> None:
    """And the run goes on."""
    app = _app()
    app.handler("a")(lambda record: None)
    with run(app) as t:
        with pytest.raises(ConfigurationError, match=message):
            call(t)
        t.send("a", "fine")
        t.wait()


def test_what_is_no_setting_is_named_and_where_it_goes() -> None:
    """Not as a slip of the pen for itself."""
    app = _app()
    app.handler("a")(lambda record: None)
    settings: dict[str, Any] = {"endpoint": ehkafka.Endpoint.embedded()}
    with (
        pytest.raises(ConfigurationError, match=r"give it in the code instead, as App\(endpoint=…\)"),
        run(app, **settings),
    ):
        pass


def test_an_app_that_runs_or_cannot_run_is_refused() -> None:
    """With the reason."""
    app = _app()
    with pytest.raises(ConfigurationError, match="no handler"), run(app):
        pass
    app.handler("a")(lambda record: None)
    with run(app) as t:
        with pytest.raises(ConfigurationError, match="running"), run(app):
            pass
        t.send("a", "x")
        t.wait()
    with pytest.raises(ConfigurationError, match="is over"):
        t.send("a", "x")
    with pytest.raises(ConfigurationError, match="is over"):
        t.wait()
    with pytest.raises(ConfigurationError, match="a function is no app"), run(_app):  # type: ignore[arg-type]
        pass
