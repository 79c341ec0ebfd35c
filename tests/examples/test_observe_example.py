"""The dashboard, the alerts and the page of metrics name what exists: metrics, their labels, their kinds."""

from __future__ import annotations

import json
import re
import runpy
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import ehkafka
from ehkafka.telemetry.catalogue import ALL, COMMON_LABELS
from tests.examples.test_documents import headings
from tests.kit.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = ROOT / "examples/observe"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
GROUPS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]
PAGE = (ROOT / "docs/reference/metrics.md").read_text()
ROW = re.compile(
    r"^\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<labels>.*?) \| (?P<meaning>.*?) \| (?P<worry>.+) \|$",
    re.MULTILINE,
)
# What must have an alert, whatever else there is.
WANTED = (
    "ehkafka_oldest_unfinished_seconds",
    "ehkafka_lag_records",
    "ehkafka_commits_total",
    "ehkafka_held_lanes",
    "ehkafka_blocked_lanes",
    "ehkafka_dead_letters_total",
    "ehkafka_member_restarts_total",
)
SELECTOR = re.compile(r"(?P<name>ehkafka_\w+)(?:\{(?P<matchers>[^}]*)\})?")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"[^"]*"')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
RISING = re.compile(r"\b(?:rate|irate|increase)\((\w+)")
# Words of the language; what is neither these, nor a metric or a label, is a slip.
WORDS = {
    *("sum", "max", "min", "by", "and", "unless", "on", "topk", "rate", "increase", "deriv"),
    *("histogram_quantile", "label_values"),
}


def series() -> dict[str, tuple[str, set[str]]]:
    """Return the kind and the labels of each series that a scrape may bring."""
    found = {}
    for metric in ALL:
        labels = {*COMMON_LABELS, *metric.labels}
        if metric.kind == "histogram":
            found |= {f"{metric.name}_{part}": ("counter", labels) for part in ("sum", "count")}
            found[f"{metric.name}_bucket"] = ("counter", labels | {"le"})
        else:
            found[metric.name] = (metric.kind, labels)
    return found


SERIES = series()


def problems(expression: str) -> Iterator[str]:
    """Yield what an expression names that does not exist."""
    known: set[str] = set()
    for one in SELECTOR.finditer(expression):
        if one["name"] not in SERIES:
            yield f"there is no {one['name']}"
            continue
        labels = SERIES[one["name"]][1]
        known |= labels
        yield from (
            f"{one['name']} has no {name}"
            for name in MATCHER.findall(one["matchers"] or "")
            if name not in labels
        )
        if MATCHER.sub("", one["matchers"] or "").strip(", "):
            yield f"{{{one['matchers']}}} is no list of matchers"
    grouped = {name.strip() for names in GROUPING.findall(expression) for name in names.split(",")}
    yield from (f"nothing here has {name}" for name in grouped - known)
    for name in RISING.findall(expression):
        if SERIES.get(name, ("counter",))[0] != "counter":
            yield f"{name} is no counter"
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\{[^}]*\}', "", expression)
    words = set(re.findall(r"\b[a-z_]\w*", bare)) - WORDS - known
    yield from (f"what is {word}?" for word in words if not word.startswith("ehkafka_"))
    if any(expression.count(left) != expression.count(right) for left, right in ("()", "{}", "[]")):
        yield "brackets are left open"


def expressions(part: Any) -> Iterator[str]:
    """Yield the expressions of a dashboard, wherever they stand."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name == "expr" or (name in {"query", "definition"} and "(" in str(value)):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(part, list):
        for one in part:
            yield from expressions(one)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_names_what_exists(rule: dict[str, Any]) -> None:
    """Its text takes labels that its expression leaves, and says what to do; a section of ours says more."""
    assert list(problems(rule["expr"])) == []
    left = {name.strip() for names in GROUPING.findall(rule["expr"]) for name in names.split(",")}
    texts = " ".join(rule["annotations"].values())
    assert {*re.findall(r"\$labels\.(\w+)", texts)} <= left
    assert set(rule["annotations"]) == {"summary", "description", "runbook"}
    page, _, section = rule["annotations"]["runbook"].partition("#")
    assert section in headings(ROOT / page)
    assert rule["labels"]["severity"] in {"page", "ticket"}


@pytest.mark.parametrize("expression", sorted(set(expressions(DASHBOARD))))
def test_the_dashboard_names_what_exists(expression: str) -> None:
    """In its panels and its variables."""
    assert list(problems(expression)) == []


def test_what_stops_a_consumer_raises_an_alert() -> None:
    """The age of the oldest unfinished record first: it grows whatever the reason."""
    assert WANTED[0] in RULES[0]["expr"]
    texts = " ".join(rule["expr"] for rule in RULES)
    assert [name for name in WANTED if not re.search(rf"{name}\b", texts)] == []


def test_the_dashboard_shows_every_metric_but_the_uptime() -> None:
    """Panels stand next to each other without overlap, each with an id of its own."""
    texts = " ".join(expressions(DASHBOARD))
    missing = [metric.name for metric in ALL if metric.name not in texts]
    assert missing == ["ehkafka_uptime_seconds", "ehkafka_mirror_behind_partitions", "ehkafka_mirror_failing"]
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    fields = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(fields) == len(set(fields))
    assert max(x for x, _ in fields) == 23


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("ehkafka_lags", "there is no ehkafka_lags"),
        ('ehkafka_lag_records{handler="h"}', "has no handler"),
        ("sum by (handler) (ehkafka_lag_records)", "nothing here has handler"),
        ("rate(ehkafka_lag_records[5m])", "is no counter"),
        ("ehkafka_handler_seconds", "there is no ehkafka_handler_seconds"),
        ("smu(ehkafka_lag_records)", "what is smu"),
        ("sum(ehkafka_lag_records", "left open"),
    ],
)
def test_a_slip_in_an_expression_is_found(expression: str, problem: str) -> None:
    """Of each kind."""
    assert any(problem in found for found in problems(expression))


def test_the_example_for_azure_is_what_the_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its app is traced; the distribution, which is not here, is set up where the program starts alone."""
    source = (FOLDER / "azure_monitor.py").read_text()
    assert source.split('"""', 2)[2].strip() in (ROOT / "docs/guides/tracing.md").read_text()
    calls: list[str] = []
    stand_in = types.ModuleType("azure.monitor.opentelemetry")
    stand_in.configure_azure_monitor = lambda: calls.append("configured")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "azure.monitor", types.ModuleType("azure.monitor"))
    monkeypatch.setitem(sys.modules, "azure.monitor.opentelemetry", stand_in)
    monkeypatch.setattr(ehkafka.Endpoint, "from_env", ehkafka.Endpoint.embedded)
    program = runpy.run_path(str(FOLDER / "azure_monitor.py"))
    assert program["app"].topics == ("readings",)
    assert [type(one).__name__ for one in program["app"]._hooks["middleware"]] == ["AttemptSpans"]
    assert calls == []
    monkeypatch.setattr(ehkafka.App, "run", lambda _app: calls.append("run"))
    runpy.run_path(str(FOLDER / "azure_monitor.py"), run_name="__main__")
    assert calls == ["configured", "run"]


def test_the_page_and_the_catalogue_agree() -> None:
    """Each metric in the order of the catalogue, with its kind, labels and meaning, and when to worry."""
    rows = [one.groupdict() for one in ROW.finditer(PAGE)]
    assert [row["name"] for row in rows] == [metric.name for metric in ALL]
    for row, metric in zip(rows, ALL, strict=True):
        labels = tuple(re.findall(r"`(\w+)`", row["labels"]))
        assert (row["kind"], labels, row["meaning"]) == (metric.kind, metric.labels, metric.meaning)
        assert row["worry"].strip()
    named = set(re.findall(r"ehkafka_\w+", PAGE))
    assert named <= {metric.name for metric in ALL}
