"""Every fenced block of a page works: Python runs, settings and data load; `test_page_commands` has the rest.

The Python blocks of one page share a namespace, as one file would. Wherever they say that their broker is, it
is one embedded broker; each app that they make is started, gets a record for each of its topics, and must
handle and commit it.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
import tomllib
import types
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import ehkafka
from ehkafka.checkpoints import MemoryStore, StoreMirror
from ehkafka.cli.settings.file import read_file
from ehkafka.events import PartitionAssigned
from ehkafka.events.event import Failure
from ehkafka.testing import EmbeddedBroker
from tests.kit import waiting
from tests.kit.events import Events
from tests.kit.pages import FILE_NAME, PAGES, ROOT, Block, blocks_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HANDLED_S = 30.0
NOT_RUN_MAX = 3
"""Blocks that no test runs: two need services of Azure, one needs Delta's JAR."""

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
LANGUAGES = {"python", "java", "console", "toml", "json", "yaml", "text"}
RUN = [block for block in BLOCKS if block.not_run is None]
PYTHON_PAGES = list(dict.fromkeys(block.page for block in RUN if block.language == "python"))
# What the handlers of all pages look for in a record.
PAYLOAD = {"home": "home-1", "door": "open", "customer": "c-1", "celsius": 21.5, "items": [1, 2]}
KEY_OF_A_VAULT = "Endpoint=sb://h.servicebus.windows.net/;SharedAccessKeyName=n;SharedAccessKey=azE="


def of(language: str) -> list[Block]:
    """Return the blocks of a language that are to work."""
    return [block for block in RUN if block.language == language]


def test_each_block_says_what_it_is() -> None:
    """A fence without a language is not checked; `text` is for what a program prints."""
    assert [str(block) for block in BLOCKS if block.language not in LANGUAGES] == []


def test_few_blocks_are_not_run() -> None:
    """Each names the test that runs it, or says why none does; Python at least compiles."""
    marked = [block for block in BLOCKS if block.not_run is not None]
    by_no_test = []
    for block in marked:
        reason = str(block.not_run).split()[0]
        if not reason.startswith("tests/"):
            by_no_test.append(f"{block}: {block.not_run}")
        elif not (ROOT / reason).is_file():
            pytest.fail(f"{block}: there is no {reason}")
    assert len(by_no_test) <= NOT_RUN_MAX, by_no_test
    for block in marked:
        if block.language == "python":
            compile(block.text, str(block), "exec")


# --- Python ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its apps handle and commit what they get; its programs' consumers can be closed."""
    blocks = [block for block in of("python") if block.page == page]
    name = re.sub(r"\W", "_", f"page_{page.parent.name}_{page.stem}")
    # Worker processes find a page's handlers by their names, as those of any program.
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / f"{name}.py").write_text("\n\n".join(block.text for block in blocks))
    for block in blocks:
        if file := FILE_NAME.match(block.text):
            (tmp_path / file["name"]).write_text(block.text)
            monkeypatch.delitem(sys.modules, file["name"].removesuffix(".py"), raising=False)
    module = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    set_the_scene(monkeypatch)
    made: list[ehkafka.App] = []
    initialize = ehkafka.App.__init__

    def remember(app: ehkafka.App, **arguments: Any) -> None:
        initialize(app, **arguments)
        made.append(app)

    monkeypatch.setattr(ehkafka.App, "__init__", remember)
    with one_broker_for_all(monkeypatch) as endpoint:
        for block in blocks:
            # Empty lines put a traceback's line numbers where the page has them.
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), vars(module))
        for app in tuple(made):
            assert app.topics, "an app without a handler is no example"
            handle_one_of_each(app, endpoint)
        for left in vars(module).values():
            if isinstance(left, ehkafka.Consumer | EmbeddedBroker):
                left.close()


TEST_PAGES = [
    page for page in PYTHON_PAGES if any("\ndef test_" in b.text for b in of("python") if b.page == page)
]


@pytest.mark.parametrize("page", TEST_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_of_a_page_pass(page: Path, tmp_path: Path) -> None:
    """In the files that the page names, by the command that it shows: `python -m pytest`."""
    files = []
    for block in of("python"):
        if block.page == page and (file := FILE_NAME.match(block.text)):
            (tmp_path / file["name"]).write_text(block.text)
            files.append(file["name"])
    tests = [name for name in files if name.startswith("test_")]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f" {len(tests)} passed" in done.stdout, "one test in each of these files"


def set_the_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the page what it expects around it: variables, a mirror, a vault."""
    monkeypatch.setenv("EHKAFKA_NAMESPACE", "home")
    monkeypatch.setattr(ehkafka.BlobMirror, "from_env", lambda: StoreMirror(store=MemoryStore()))
    vault = types.ModuleType("azure.keyvault.secrets")

    class SecretClient:
        def __init__(self, *_arguments: object) -> None:
            pass

        def get_secret(self, _name: str) -> Any:
            return types.SimpleNamespace(value=KEY_OF_A_VAULT)

    vault.SecretClient = SecretClient  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure.keyvault", types.ModuleType("azure.keyvault"))
    monkeypatch.setitem(sys.modules, vault.__name__, vault)


@contextlib.contextmanager
def one_broker_for_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[ehkafka.Endpoint]:
    """Let every way to describe an endpoint lead to one embedded broker; what is given is still checked."""
    with ehkafka.Endpoint.embedded(partitions=4) as endpoint:
        for way in ("kafka", "connection_string", "entra", "from_env", "embedded"):
            monkeypatch.setattr(ehkafka.Endpoint, way, led_to(endpoint, getattr(ehkafka.Endpoint, way)))
        yield endpoint


def led_to(endpoint: ehkafka.Endpoint, describe: Any) -> Any:
    """Return what describes an endpoint and then hands out this one."""

    def lead_here(*given: Any, **options: Any) -> ehkafka.Endpoint:
        described = describe(*given, **options)
        if described is not endpoint:  # one way may call another
            described.close()
        return endpoint

    return lead_here


def handle_one_of_each(app: ehkafka.App, endpoint: ehkafka.Endpoint) -> None:
    """Run the app until it has handled and committed one record of each of its topics."""
    endpoint.prepare_topics(app.topics)
    broker = broker_of(endpoint)
    fill_to_the_start(app, broker)
    seen = Events()
    app.add_hook(seen)
    # The embedded broker keeps no offsets of transactions; `testing.run` does the same.
    app.configure(exactly_once=False)
    app.start()
    try:
        wait_until(app, lambda: len(seen.of(PartitionAssigned)) >= 4 * len(app.topics), seen)
        for topic in app.topics:
            broker.produce(topic, [("home-1", json.dumps(PAYLOAD).encode())])
        wait_until(app, lambda: all_is_committed(app), seen)
    finally:
        app.stop()
    snapshot = app.snapshot()
    assert (seen.of(Failure), snapshot.skipped_records, snapshot.dead_lettered_records) == ([], 0, 0)
    assert snapshot.finished_records >= len(app.topics)


def all_is_committed(app: ehkafka.App) -> bool:
    """Tell whether each topic's record is finished, and every commit is where its partition stands."""
    snapshot = app.snapshot()
    return snapshot.finished_records >= len(app.topics) and all(
        one.watermark in {None, one.committed} for one in snapshot.partitions
    )


def broker_of(endpoint: ehkafka.Endpoint) -> EmbeddedBroker:
    """Return the broker behind an embedded endpoint."""
    assert endpoint._broker is not None
    return endpoint._broker._started()


def fill_to_the_start(app: ehkafka.App, broker: EmbeddedBroker) -> None:
    """Let the log reach to where an app begins that names offsets."""
    start = app.settings.start
    for partition, offset in start.items() if isinstance(start, dict) else ():
        if isinstance(offset, int):
            for topic in app.topics:
                broker.produce(topic, [(None, b"{}")] * offset, partition=partition)


def wait_until(app: ehkafka.App, is_so: Any, seen: Events) -> None:
    """Wait for it while the app runs well."""

    def check() -> None:
        assert app.state == "running", app.stop()
        assert not seen.of(Failure), seen.of(Failure)
        time.sleep(0.02)

    waiting.wait_until(
        is_so, lambda: f"{waiting.words_of(is_so)} ({app.health()})", HANDLED_S, meanwhile=check
    )


# --- settings and data -------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [*of("toml"), *of("json"), *of("yaml")], ids=str)
def test_what_is_no_program_loads(block: Block, tmp_path: Path) -> None:
    """TOML with a table of ours as the command loads it; the rest by its language's reader."""
    if block.language == "json":
        json.loads(block.text)
    elif block.language == "yaml":
        assert all(yaml.safe_load(document) for document in block.text.split("---\n"))
    elif {"app", "endpoint", "consumer"} & set(tomllib.loads(block.text)):
        file = tmp_path / "ehkafka.toml"
        file.write_text(block.text)
        read_file(file)
