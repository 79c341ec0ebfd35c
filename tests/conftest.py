"""What every test gets: real servers on request, a watch for leaked threads, and no cloud to probe."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka.errors import EhkafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from ehkafka.testing.kafka.broker import KafkaBroker
    from tests.kit.azurite import Azurite
    from tests.kit.faults.kafka_proxy import KafkaProxy

# Nothing listens on port 1: azure-identity gets "connection refused" at once and asks no other address.
DEAD_IDENTITY_ENDPOINT = "http://127.0.0.1:1/msi/token"
THREAD_GRACE_S = 5.0
# They read the package's sources, which a copy of the checkout for `scripts/test --wheel` does not have.
OF_THE_SOURCES = ["architecture", "prose", "typing", "wheel/test_installed.py", "wheel/test_release.py"]
collect_ignore = [] if (Path(__file__).parents[1] / "ehkafka").is_dir() else OF_THE_SOURCES
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# Chromium would otherwise look for updates and names; nothing but this machine's address resolves.
LOOPBACK_ONLY = [
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--disable-background-networking",
    "--disable-component-update",
]
# A failure there is a fact about the code, whatever the machine does, or a race that was hunted on purpose:
# it fails at once and for good.
REPEATABLE = {"architecture", "docs", "headers", "lanes", "progress", "simulation", "workers"}
REPEATABLE |= {"ranges/test_batches.py"}
REPEATABLE |= {f"spark/engine/test_{name}.py" for name in ("hand_over", "holder")}
REPEATABLE |= {f"spark/sink/test_{name}.py" for name in ("columns", "files", "options")}
REPEATABLE |= {
    f"spark/source/test_{name}.py" for name in ("begin", "offsets", "options", "planning", "schema", "stream")
}
# Elsewhere clients, threads and servers race real clocks, and a machine may stand still for seconds.
RERUNS = 2
# But an assertion whose message begins so has seen what no slow machine makes: lost or repeated records,
# another order, a secret that is shown. To run such a test until it passes would hide what it is for.
FACT = "^AssertionError: FACT: "


# Rooms whose tests make errors, log lines and results of checks say what they have to say.
SPOKEN = {"checks", "cli", "endpoint", "offsets", "recovery", "telemetry"}
FLAWS = {
    "two full stops": r"(?<=[\w)\]?!])\.\.(?![./\d])",
    "a mark after a mark": r"[?!;:,]\.(?!\w)",
    "more than three digits of a time": r"(?<![\w.])(?=\d*\.\d)0*\.?0*[1-9](?:\.?\d){3,} s\b",
    "no time at all": r"(?<![\d.])0\.0+ s\b",
    "one of many": r"(?<![\w.,/-])1 (?:records|partitions|letters|batches|offsets|owners|checks|keys)\b",
    "a space at the end": r"[^\n] +$",
}


def flaws_of(text: str) -> list[str]:
    """Return what is wrong with how a sentence was put together."""
    return [f"{name}: {text!r}" for name, pattern in FLAWS.items() if re.search(pattern, text)]


@pytest.fixture
def flaws() -> Callable[[str], list[str]]:
    """Return what finds the flaws of a text."""
    return flaws_of


@pytest.fixture(autouse=True)
def module_search_path() -> Iterator[None]:
    """Undo what a test adds to `sys.path`: loading an app adds its folder, and a child process inherits it.

    A file `json.py` there would hide the standard library's from every later test of this process.
    """
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(autouse=True)
def plain_words(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look at each error of ours and each log line that a test of these rooms brings about."""
    if request.path.relative_to(request.config.rootpath / "tests").parts[0] not in SPOKEN:
        yield
        return
    found: list[str] = []
    made = EhkafkaError.__init__

    def noted(error: EhkafkaError, *texts: object) -> None:
        made(error, *texts)
        found.extend(flaw for text in texts[:1] if isinstance(text, str) for flaw in flaws_of(text))

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.extend(flaws_of(record.getMessage()))

    ear, log = Ear(), logging.getLogger("ehkafka")
    monkeypatch.setattr(EhkafkaError, "__init__", noted)
    log.addHandler(ear)
    yield
    log.removeHandler(ear)
    assert found == []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that need the broker (`-m "not broker"` never starts one) and those that may run again.

    Each rerun is reported with its traceback at the end; `EHKAFKA_RERUNS=0` allows none.
    """
    reruns = int(os.environ.get("EHKAFKA_RERUNS", RERUNS))
    for item in items:
        if {"kafka", "far_kafka", "azurite", "token_azurite"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("broker")
        path = item.path.relative_to(config.rootpath / "tests")
        if not REPEATABLE & {path.parts[0], path.as_posix()}:
            item.add_marker(pytest.mark.flaky(reruns=reruns, rerun_except=FACT))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage: thousands of them are made, and none is garbage.

    Looking takes nearly half of the CPU time that each process of a parallel run needs for that.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let a run that hands out whole files begin with the long ones, and start Spark once."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.kit.schedule import LongFirst  # noqa: PLC0415 - needs pytest-xdist

    return LongFirst(config, log)


@pytest.fixture(scope="session", autouse=True)
def no_cloud_identity() -> Iterator[None]:
    """Keep azure-identity from probing the metadata address of the machine that runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IDENTITY_ENDPOINT", DEAD_IDENTITY_ENDPOINT)
        patch.setenv("IDENTITY_HEADER", "no-identity-in-tests")
        yield


@pytest.fixture(scope="session", autouse=True)
def interrupts_arrive() -> Iterator[None]:
    """Let Ctrl-C be heard here and by the commands that tests start, as in a terminal.

    A shell starts what it puts into the background with SIGINT ignored. Python then leaves it so, and every
    process inherits it.
    """
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    if is_ignored:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.fixture(scope="session", autouse=True)
def versions() -> Iterator[None]:
    """Let embedded brokers offer the requests of an Event Hubs namespace: EHKAFKA_VERSIONS=namespace."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("EHKAFKA_VERSIONS") == "namespace":
            from tests.kit.namespace_versions import offer_namespace_versions  # noqa: PLC0415 - when wanted

            offer_namespace_versions(patch)
        yield


@pytest.fixture(scope="session", autouse=True)
def kept_classes() -> Iterator[None]:
    """Let each broker start with the classes that `scripts/test` has kept for it."""
    from tests.kit.broker_classes import brokers_with_classes  # noqa: PLC0415 - wants all of the environment

    with brokers_with_classes():
        yield


@pytest.fixture(scope="session")
def _kafka() -> Iterator[tuple[KafkaBroker, KafkaProxy]]:
    from tests.kit.brokers import running, shared_broker  # noqa: PLC0415 - when a test asks
    from tests.kit.faults.kafka_proxy import KafkaProxy  # noqa: PLC0415

    with KafkaProxy() as proxy, running(shared_broker(proxy.port)) as broker:
        proxy.forward_to(broker.bootstrap_for("far"))
        yield broker, proxy


@pytest.fixture(scope="session")
def kafka(_kafka: tuple[KafkaBroker, KafkaProxy]) -> KafkaBroker:
    """Return a running Apache Kafka broker, shared by the session: use topics and groups of your own."""
    return _kafka[0]


@pytest.fixture
def far_kafka(
    _kafka: tuple[KafkaBroker, KafkaProxy],
) -> Iterator[tuple[KafkaBroker, KafkaProxy]]:
    """Return the broker of `kafka`, and the proxy through which `proxy.address` reaches it.

    The broker's plaintext listener goes past the proxy. The network is good again after each test.
    """
    broker, proxy = _kafka
    proxy.calm()
    yield broker, proxy
    proxy.forward_to(broker.bootstrap_for("far"))
    proxy.calm()


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    """Return a running Azurite (Azure Blob Storage), shared by the session: use containers of your own."""
    from tests.kit.azurite import Azurite  # noqa: PLC0415 - only when a test asks for it
    from tests.kit.brokers import running  # noqa: PLC0415

    with running(Azurite(), "Azurite") as server:
        yield server


@pytest.fixture(scope="session")
def _token_azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Azurite, Path]]:
    from tests.kit.azurite import Azurite  # noqa: PLC0415 - see above
    from tests.kit.brokers import running, server_identity  # noqa: PLC0415

    folder, identity = tmp_path_factory.mktemp("azurite"), server_identity()
    paths = {name: folder / f"{name}.pem" for name in ("certificate", "key", "authority")}
    paths["certificate"].write_bytes(identity.certificate_pem)
    paths["key"].write_bytes(identity.key_pem)
    paths["authority"].write_bytes(identity.ca_pem)
    with running(Azurite(certificate=(paths["certificate"], paths["key"])), "Azurite") as server:
        yield server, paths["authority"]


@pytest.fixture
def token_azurite(_token_azurite: tuple[Azurite, Path], monkeypatch: pytest.MonkeyPatch) -> Azurite:
    """Return an Azurite with TLS that takes Entra ID tokens; Azure's clients trust its certificate.

    It is shared by the session: use containers of your own.
    """
    server, authority = _token_azurite
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority))
    return server


@pytest.fixture
def metadata_room(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what limits the metadata of each commit to so many bytes, for apps that start from then on."""

    def limit(bytes_max: int) -> None:
        for name in ("KAFKA_METADATA_BYTES_MAX", "EVENT_HUBS_METADATA_BYTES_MAX"):
            monkeypatch.setattr(f"ehkafka.progress.saving.{name}", bytes_max)

    return limit


@pytest.fixture(autouse=True)
def no_leaked_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a thread of ehkafka, or one that would keep the process alive."""
    before = set(threading.enumerate())
    # The browser of a module stays for its other tests, with the threads of its event loop.
    kept = "asyncio_" if "browser_page" in request.fixturenames else "-"
    yield
    deadline_s = time.monotonic() + THREAD_GRACE_S
    while leaked := [
        thread
        for thread in threading.enumerate()
        if thread not in before and _is_leak(thread) and not thread.name.startswith(kept)
    ]:
        if time.monotonic() > deadline_s:
            names = ", ".join(thread.name for thread in leaked)
            pytest.fail(f"threads still run {THREAD_GRACE_S:g} s after the test: {names}", pytrace=False)
        leaked[0].join(timeout=0.05)


def _is_leak(thread: threading.Thread) -> bool:
    return not thread.daemon or thread.name.startswith("ehkafka-")


@pytest.fixture(scope="module")
def _browser() -> Iterator[Any]:
    # Not for the whole session: Playwright's event loop runs in this thread until it ends.
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only when a test asks for it

        chromium = next(filter(None, map(shutil.which, CHROMIUMS)))
    except (ImportError, StopIteration):
        missing = EhkafkaError("install one (apt install chromium) and pip install playwright")
        from tests.kit.brokers import skip_or_fail  # noqa: PLC0415

        if os.environ.get("EHKAFKA_NO_BROWSER") == "1":
            pytest.skip(f"no Chromium: {missing}")
        skip_or_fail(missing, "Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=LOOPBACK_ONLY)
        yield browser
        browser.close()


@pytest.fixture
def browser_page(_browser: Any) -> Iterator[Any]:
    """Return a page of a real Chromium that reaches this machine alone.

    It knows nothing of other tests' pages. The test fails if the page logged an error or asked for anything
    outside; what it expects to fail, it adds to `page.expected_failures` as a part of the console's words.
    """
    context = _browser.new_context(viewport={"width": 1280, "height": 900}, device_scale_factor=1.5)
    page = context.new_page()
    page.expected_failures = []
    seen: list[str] = []
    page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: seen.append(str(error)))
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    yield page
    context.close()
    assert not [text for text in seen if not any(part in text for part in page.expected_failures)]
    assert not [url for url in asked if not url.startswith("http://127.0.0.1:")]
