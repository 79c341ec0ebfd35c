"""`ehkafka keys`: against a running app with an HTTP side, as an operator types it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import ehkafka
from ehkafka.cli.commands import cli
from tests.kit.http_server import serving
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ehkafka.testing import EmbeddedBroker

TOKEN = "a-token-of-24-characters"


@pytest.fixture
def held(
    embedded_broker_factory: Callable[..., EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Run an app of which key `a` is held at its first record, with one behind it."""
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", TOKEN)
    broker = embedded_broker_factory({"t": 1})
    app = ehkafka.App(
        group="g",
        endpoint=ehkafka.Endpoint.kafka(broker.bootstrap),
        start="earliest",
        commit_interval_s=0.1,
        http="127.0.0.1:0",
    )

    @app.handler("t", on_failure=ehkafka.Hold())
    def handle(record: Any) -> None:
        if record.offset() == 0:
            raise ValueError("no luck")

    broker.produce("t", [(b"a", b"\x1b[31mvalue"), (b"a", b"2")])
    with app:
        wait_until(lambda: app.keys.blocking() and app.keys.blocking()[0].status == "waiting: on hold")
        site = app._life.web.site
        assert site is not None
        assert site._server is not None
        yield type("Held", (), {"app": app, "url": site._server.url, "broker": broker})


def run(*words: str) -> Any:
    """Run the command."""
    return CliRunner().invoke(cli, ["keys", *words])


def test_a_blocker_is_listed_and_skipped_in_two_steps(held: Any) -> None:
    """First what would be done, then it is done; the commit passes."""
    listed = run("list", "--url", held.url)
    assert listed.exit_code == 0, listed.stderr
    assert "t/0@0 *" in listed.stdout
    assert "ValueError: no luck" in listed.stdout
    preview = run("skip", "t/0@0", "--url", held.url)
    assert "t/0@0 (key a) would be skipped.\nNothing was done" in preview.stdout
    assert held.app.keys.blocking()[0].offset == 0
    done = run("skip", "a", "--url", held.url, "--yes")
    assert (done.exit_code, done.stdout) == (0, "t/0@0 (key a) skipped.\n")
    wait_until(lambda: held.broker.committed("g", "t")[0] == 2)
    assert "No key waits" in run("list", "--url", held.url).stdout


def test_json_is_for_programs(held: Any) -> None:
    """List and action."""
    [one] = json.loads(run("list", "--json", "--blocking", "--url", held.url).stdout)
    assert (one["name"], one["status"], one["url"]) == ("t/0@0", "waiting: on hold", held.url)
    assert "\x1b" not in one["value"]
    done = json.loads(run("retry", "t/0@0", "--json", "--yes", "--url", held.url).stdout)
    assert done["changed"] is True


def test_what_is_refused_ends_with_its_code_and_names_why(held: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown key, one without dead letters, and a wrong token, which is not shown."""
    unknown = run("skip", "never", "--url", held.url, "--yes")
    assert (unknown.exit_code, "has the key 'never'" in unknown.stderr) == (7, True)
    letters = run("dead-letter", "a", "--url", held.url)
    assert (letters.exit_code, "no dead-letter topic" in letters.stderr) == (7, True)
    monkeypatch.setenv("EHKAFKA_HTTP_TOKEN", "another-token-of-24-chars")
    wrong = run("skip", "a", "--url", held.url)
    assert wrong.exit_code == 2
    assert "refuses the token of EHKAFKA_HTTP_TOKEN" in wrong.stderr.replace("\n", " ")
    assert "another-token" not in wrong.output + wrong.stderr
    monkeypatch.delenv("EHKAFKA_HTTP_TOKEN")
    without = run("skip", "a", "--url", held.url)
    assert without.exit_code == 2
    assert "requires the token: set EHKAFKA_HTTP_TOKEN, or give --token-file" in without.stderr.replace(
        "\n", " "
    )


def test_the_app_that_has_the_key_is_found(held: Any) -> None:
    """Among several, one of which does not answer."""
    done = run("pause", "a", "--url", "http://127.0.0.1:9", "--url", held.url, "--yes", "--timeout", "2")
    assert (done.exit_code, "paused" in done.stdout) == (0, True), done.stderr
    assert run("resume", "a", "--url", held.url, "--yes").stdout == "key a resumed.\n"
    partition = run("pause", "t/0", "--partition", "--for-s", "60", "--url", held.url, "--yes")
    assert "t/0 paused for 60 s" in partition.stdout
    assert run("resume", "t/0", "--partition", "--url", held.url, "--yes").stdout == "t/0 resumed.\n"


def test_an_app_that_does_not_answer_is_named_beside_those_without_the_key(held: Any) -> None:
    """It may be the one that has it."""
    unknown = run("skip", "never", "--url", "http://127.0.0.1:9", "--url", held.url, "--timeout", "2")
    assert unknown.exit_code == 7
    assert "has the key 'never'" in unknown.stderr
    assert "http://127.0.0.1:9 does not answer" in unknown.stderr.replace("\n", " ")


def test_who_does_not_answer_is_named() -> None:
    """With what to look at."""
    ended = run("list", "--url", "http://127.0.0.1:9", "--timeout", "2")
    assert ended.exit_code == 3
    assert "started with --http" in ended.stderr.replace("\n", " ")


EVIL = "\x1b[2Jevil\nline"
KEY = {
    **dict.fromkeys(("name", "key", "status", "handler", "last_error"), EVIL),
    "attempts": 1,
    "records": 1,
    "is_blocking": True,
    "age_s": 1.0,
}


@contextmanager
def answering(answer: Any) -> Iterator[str]:
    """Serve one answer to whatever is asked; the value is the URL."""
    with serving(lambda _request: (200, {}, json.dumps(answer).encode())) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    "answer",
    [[], 1, {}, {"keys": None}, {"keys": [1]}, {"keys": [{}]}, {"keys": [KEY | {"age_s": "1"}]}, {"text": 1}],
)
def test_what_no_app_of_ours_answers_is_no_crash(answer: Any) -> None:
    """Something else listens there: one sentence, and its exit code."""
    with answering(answer) as url:
        for words in (("list",), ("skip", "a", "--yes")):
            ended = run(*words, "--url", url)
            assert (ended.exit_code, "answered" in ended.stderr) == (3, True), ended.stderr


def test_what_an_answer_says_commands_no_terminal() -> None:
    """Keys and errors come from the records' producers."""
    with answering({"keys": [KEY]}) as keys, answering({"text": EVIL, "name": "t/0@0"}) as action:
        listed = run("list", "--url", keys)
        done = run("skip", "a", "--yes", "--url", action)
    assert (listed.exit_code, done.exit_code) == (0, 0)
    assert "\x1b" not in listed.stdout + done.stdout
