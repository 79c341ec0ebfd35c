"""Options of handlers from files, variables and flags: whose they are, which decides, and what is refused."""

from __future__ import annotations

import inspect
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ehkafka import App, Auto, Batch, Endpoint, Processes
from ehkafka.app.handler_options import OPTIONS, Tunable
from ehkafka.cli.config import effective
from ehkafka.cli.settings.given import Given
from ehkafka.cli.settings.handlers import resolved
from ehkafka.cli.settings.layer import HandlerValue
from ehkafka.errors import ConfigurationError
from ehkafka.spark.engine.tasks.shipment import to_ship

if TYPE_CHECKING:
    from ehkafka.handlers.spec import HandlerSpec

KEY = "Zk9xQ0vR3t7pLmW2dYhB8sJc5uNe1aXg"
SECRET = f"Endpoint=sb://unit-test.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={KEY}"
SHOP = """
import ehkafka
app = ehkafka.App(group="home", endpoint=ehkafka.Endpoint.kafka("127.0.0.1:1"), start="earliest")
@app.handler("readings")
def readings(record): pass
"""

FILE = Path("ehkafka.toml")

pytestmark = pytest.mark.usefixtures("folder")


def readings(record: object) -> None:
    """Handle."""


def readings_late(record: object) -> None:
    """Handle."""


def store(batch: Batch) -> None:
    """Handle many."""


def shop() -> App:
    """Return an app with handlers whose names begin alike, one of batches, and one in processes."""
    app = App(group="code", start="latest", endpoint=Endpoint.kafka("code:1"))
    app.handler("readings", workers=8, deadline_s=5.0)(readings)
    app.handler("late")(readings_late)
    app.batch_handler("stored", workers=2)(store)
    app.handler("decoded", workers=Processes(2, batch_s=0.5))(inspect.cleandoc)
    return app


def configured(*flags: str, app: App | None = None) -> App:
    """Return an app with what the written file, environment and flags say laid over its code."""
    app = shop() if app is None else app
    Given.read(FILE if FILE.exists() else None, flags).apply(app)
    return app


def spec_of(app: App, name: str) -> HandlerSpec:
    """Return one handler as a run gets it."""
    return next(spec for spec in app._options().specs if spec.name == name)


def origins(app: App) -> dict[str, str]:
    """Return where each option came from."""
    return {one.name: one.origin for one in app.configuration() if one.section == "handlers"}


def test_flag_before_variable_before_file_before_code_before_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each source decides what no higher one says, and is named as the origin."""
    FILE.write_text("[handlers.readings]\nworkers = 2\ndeadline_s = 2\nrate_limit = 2\n")
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_WORKERS", "3")
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_DEADLINE_S", "3")
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_MAX_AGE", "")  # as a setting of the app: not set
    app = configured("readings.workers=4")
    spec = spec_of(app, "readings")
    assert (spec.workers, spec.deadline_s, spec.rate_limit) == (4, 3, 2)
    found = origins(app)
    assert found["readings.workers"] == "--set readings.workers"
    assert found["readings.deadline_s"] == "EHKAFKA_HANDLER_READINGS_DEADLINE_S"
    assert found["readings.rate_limit"] == "ehkafka.toml: handlers.readings.rate_limit"
    assert found["store.workers"] == "code"
    assert spec_of(app, "readings_late").workers == 16


def test_each_option_is_taken_as_text_and_typed_in_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable, a flag and a file are read alike."""
    texts = {
        "workers": ("32", "32", 32),
        "start": ("-10m", "'-10m'", timedelta(minutes=-10) * -1),
        "max_age": ("7d", "'7d'", timedelta(days=7)),
        "deadline_s": ("0.5", "0.5", 0.5),
        "rate_limit": ("100", "100", 100),
    }
    of_batches = {
        "batch_records_max": ("50", "50", 50),
        "batch_bytes_max": ("1000", "1000", 1000),
        "wait_s_max": ("0.1", "0.1", 0.1),
    }
    for handler, options in (("readings", texts), ("store", of_batches)):
        for option, (text, written, value) in options.items():
            assert getattr(spec_of(configured(f"{handler}.{option}={text}"), handler), option) == value
            with monkeypatch.context() as patch:
                patch.setenv(f"EHKAFKA_HANDLER_{handler.upper()}_{option.upper()}", text)
                assert getattr(spec_of(configured(), handler), option) == value
            FILE.write_text(f"[handlers.{handler}]\n{option} = {written}\n")
            assert getattr(spec_of(configured(), handler), option) == value
            FILE.unlink()
    assert {*texts, *of_batches} == set(OPTIONS)


def test_processes_stay_processes() -> None:
    """Their number changes, and nothing else of them; so it is in what runs on Spark's driver."""
    app = configured("cleandoc.workers=5", "readings.workers=3")
    assert spec_of(app, "cleandoc").workers == Processes(5, batch_s=0.5)
    shown = {one.name: one.value for one in app.configuration()}
    assert (shown["cleandoc.workers"], shown["readings.workers"]) == ("Processes(5)", 3)
    assert [spec.workers for spec in to_ship(app._options())["specs"]] == [3, 16, 2, 1]


def test_the_longest_name_that_fits_has_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """`readings` is the beginning of `readings_late`; what no name is longer for is its own."""
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_LATE_WORKERS", "3")
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_MAX_AGE", "1h")
    app = configured()
    assert (spec_of(app, "readings").workers, spec_of(app, "readings_late").workers) == (8, 3)
    assert spec_of(app, "readings").max_age == timedelta(hours=1)


def test_a_longer_name_goes_before_an_option_that_ends_alike() -> None:
    """No two options end alike today; a new one must not take a variable from a handler."""
    handlers = [Tunable("a", ("t",), ("late_workers", "workers")), Tunable("a_late", ("t",), ("workers",))]
    value = HandlerValue("A_LATE_WORKERS", None, "3", "EHKAFKA_HANDLER_A_LATE_WORKERS")
    assert resolved([value], handlers)[0] == {"a_late": {"workers": 3}}


def named(name: str, topic: str, app: App) -> None:
    """Register a handler under a name."""

    def handle(record: object) -> None: ...

    handle.__name__ = name
    app.handler(topic)(handle)


def test_two_handlers_that_fit_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name that is another's in a variable, and by one name of two handlers."""
    app = App(group="code", start="latest", endpoint=Endpoint.kafka("code:1"))
    for name, topic in (("a.b", "one"), ("a_b", "two"), ("same", "three"), ("same", "four")):
        named(name, topic, app)
    both = r"A_B_WORKERS fits several handlers, 'a.b' \(of one\) and 'a_b' \(of two\): rename"
    monkeypatch.setenv("EHKAFKA_HANDLER_A_B_WORKERS", "3")
    with pytest.raises(ConfigurationError, match=both):
        configured(app=app)
    monkeypatch.delenv("EHKAFKA_HANDLER_A_B_WORKERS")
    both = r"'same' \(of three\) and 'same' \(of four\): rename"
    with pytest.raises(ConfigurationError, match=rf"--set same.workers fits several handlers, {both}"):
        configured("same.workers=3", app=app)
    monkeypatch.setenv("EHKAFKA_HANDLER_SAME_WORKERS", "3")
    with pytest.raises(
        ConfigurationError, match=rf"EHKAFKA_HANDLER_SAME_WORKERS fits several handlers, {both}"
    ):
        configured(app=app)
    monkeypatch.delenv("EHKAFKA_HANDLER_SAME_WORKERS")
    assert spec_of(configured("a.b.workers=3", "a_b.workers=4", app=app), "a.b").workers == 3


@pytest.mark.parametrize(
    ("variable", "text", "shown"),
    [
        (
            "HANDLER_READING_WORKERS",
            "3",
            "no handler with this name; did you mean EHKAFKA_HANDLER_READINGS_W",
        ),
        (
            "HANDLER_READINGS_WORKER",
            "3",
            "no option 'worker' .*; did you mean workers?",
        ),
        (
            "HANDLER_READINGS_COLOUR",
            "3",
            "no option 'colour' that can be set outside the code, only workers, start, .*its code",
        ),
        ("HANDLER_STORE_DEADLINE_S", "3", r"handler 'store' \(of stored\) has no option 'deadline_s'"),
        (
            "HANDLER_OTHERS_WORKERS",
            "3",
            "the app has no handler 'others_workers': it has readings, readings_late",
        ),
        ("HANDLER_READINGS_WORKERS", "many", "READINGS_WORKERS='many' is refused: give a number, auto"),
        (
            "HANDLER_CLEANDOC_WORKERS",
            "5000",
            r"CLEANDOC_WORKERS: Processes\(count=5000\): use a number from 1",
        ),
        ("HANDLER_STORE_BATCH_RECORDS_MAX", "0", r"MAX: batch handler 'store': batch_records_max=0; use"),
        (
            "WORKERS",
            "3",
            "no variable EHKAFKA_WORKERS: it belongs to one handler, so write EHKAFKA_HANDLER_<NAME>",
        ),
    ],
)
def test_a_mistake_in_a_variable_is_one_sentence_with_its_name(
    variable: str, text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of the app has changed."""
    monkeypatch.setenv(f"EHKAFKA_{variable}", text)
    app = shop()
    before = app._options().specs
    with pytest.raises(ConfigurationError, match=shown) as caught:
        configured("group=other", app=app)
    assert f"EHKAFKA_{variable}" in str(caught.value)
    assert (app._options().specs, app.settings.group) == (before, "code")


@pytest.mark.parametrize(
    ("flag", "shown"),
    [
        (
            "reading.workers=3",
            "--set reading.workers: the app has no handler 'reading'; did you mean readings?",
        ),
        ("readings.worker=3", "--set: there is no setting 'readings.worker'; did you mean readings.workers?"),
        ("workers=3", r"no setting 'workers': it belongs to one handler, so write --set NAME.workers=…"),
        (
            "store.rate_limit=2",
            r"--set store.rate_limit: handler 'store' \(of stored\) has no option 'rate_limit'",
        ),
        (f"readings.workers={SECRET}", r"--set readings.workers=\*\*\* is refused"),
    ],
)
def test_a_mistake_in_a_flag_is_one_sentence_with_its_name(flag: str, shown: str) -> None:
    """A secret is not repeated."""
    with pytest.raises(ConfigurationError, match=shown) as caught:
        configured(flag)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[handlers]\nreadings = 3", "handlers.readings is not a table; write .handlers.readings."),
        ("[handlers.readings]\nworker = 3", "no option handlers.readings.worker; did you mean workers?"),
        ("[handlers.readings]\nworkers = '3'", "handlers.readings.workers='3' is refused"),
        ("[handlers.reading]\nworkers = 3", "handlers.reading.workers: the app has no handler 'reading'"),
        ("[handlers.readings]\nworkers = 0", "handlers.readings.workers: handler 'readings': workers=0"),
        (
            "[app]\nworkers = 3",
            r"no setting app.workers: it belongs to one handler, .*below \[handlers.NAME\]",
        ),
        ("[handler.readings]\nworkers = 3", r"no table \[handler\]; did you mean handlers?"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_file_and_key(text: str, shown: str) -> None:
    """As of the app's settings."""
    FILE.write_text(text)
    with pytest.raises(ConfigurationError, match=f"ehkafka.toml: .*{shown}"):
        configured()


def test_what_kubernetes_sets_beside_a_service_is_no_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service named ehkafka-handler-readings puts such variables into every pod."""
    for name in ("SERVICE_HOST", "SERVICE_PORT", "PORT", "PORT_80_TCP_ADDR"):
        monkeypatch.setenv(f"EHKAFKA_HANDLER_READINGS_{name}", "10.0.0.1")
    assert spec_of(configured(), "readings").workers == 8


def test_without_the_app_what_was_given_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose it is remains open then; a secret that stands in the wrong place is hidden."""
    FILE.write_text("[endpoint]\nbootstrap = 'a:1'\n[handlers.readings]\nworkers = 2\n")
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_DEADLINE_S", SECRET)
    shown = effective(None, Given.read(FILE, ["readings.workers=4"])).values
    assert [(one.name, one.value, one.origin) for one in shown if one.section == "handlers"] == [
        ("readings.workers", 4, "--set readings.workers"),
        ("READINGS_DEADLINE_S", "***", "EHKAFKA_HANDLER_READINGS_DEADLINE_S"),
    ]


def test_a_program_lays_options_over_its_own_handlers() -> None:
    """What it gives is shown with where it says that it comes from; an earlier one stays."""
    app = shop()
    app.configure(handlers={"readings": {"workers": 3}}, origins={"handlers.readings.workers": "a table"})
    app.configure(handlers={"readings": {"deadline_s": None}, "store": {"workers": 1}})
    spec = spec_of(app, "readings")
    assert (spec.workers, spec.deadline_s, spec_of(app, "store").workers) == (3, None, 1)
    found = origins(app)
    assert (found["readings.workers"], found["readings.deadline_s"]) == ("a table", "configure()")
    wrong: Any
    for wrong in ({"readings": 3}, {"readings": {"start": "middle"}}, {"readings": {"order_by": len}}, [3]):
        with pytest.raises(ConfigurationError):
            app.configure(handlers=wrong)
    assert spec_of(app, "readings") == spec


@pytest.mark.parametrize(
    ("text", "found"),
    [("auto", Auto()), ("auto:2-64", Auto(2, 64)), ("auto:2-", Auto(2)), (" auto ", Auto()), ("8", 8)],
)
def test_the_number_of_workers_may_be_left_to_the_app(
    text: str, found: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a flag, a variable and a file; `ehkafka config` shows it as it is written."""
    assert spec_of(configured(f"readings.workers={text}"), "readings").workers == found
    monkeypatch.setenv("EHKAFKA_HANDLER_READINGS_WORKERS", text)
    app = configured()
    assert spec_of(app, "readings").workers == found
    shown = {one.name: one.value for one in app.configuration()}
    assert str(shown["readings.workers"]) == text.strip()


@pytest.mark.parametrize("text", ["automatic", "auto:2", "auto:64-2", "auto:0-4", "auto:2-99999", ""])
def test_a_number_that_says_nothing_is_refused_with_the_forms(text: str) -> None:
    """Where it was written."""
    with pytest.raises(ConfigurationError, match=r"readings\.workers") as caught:
        spec_of(configured(f"readings.workers={text}"), "readings")
    assert "auto" in str(caught.value).lower()


def test_batches_and_processes_take_no_auto() -> None:
    """Their number is said, or that of the cores."""
    with pytest.raises(ConfigurationError, match="give a number"):
        configured("store.workers=auto")
    with pytest.raises(ConfigurationError, match="count="):
        configured("cleandoc.workers=auto")
