"""Each room has a budget of lines: the house stays small, or a commit says for which mechanism it grew."""

from __future__ import annotations

from collections import Counter

from tests.architecture.test_dependencies import PACKAGE

# Lines of `*.py`. A room that grows past its budget needs a line in DESIGN.md that names the mechanism.
BUDGETS = {
    "__init__.py": 120,
    "__main__.py": 6,
    "aio": 750,
    "app": 2670,
    "arrow": 700,
    "checkpoints": 3430,
    "checks": 2270,
    "cli": 7330,
    "codecs": 1510,
    "consumer": 3510,
    "embedded": 1230,
    "endpoint": 4290,
    "errors.py": 140,
    "events": 2060,
    "handlers": 1570,
    "headers": 850,
    "http": 2280,
    "intake": 5070,
    "lanes": 4020,
    "members": 2370,
    "metrics": 11,
    "middleware.py": 150,
    "offsets": 1960,
    "otel": 12,
    "outputs": 3600,
    "positions": 2600,
    "progress": 2000,
    "ranges": 1560,
    "records": 950,
    "recovery": 1790,
    "redrive": 410,
    "run": 4920,
    "settings": 650,
    "spark": 8860,
    "telemetry": 2890,
    "testing": 2740,
    "transactions": 1790,
    "wording": 920,
    "workers": 4170,
}
# A budget that a room no longer needs goes down with it, or the next mechanism would come for nothing.
SLACK_MIN, SLACK_SHARE = 40, 0.03

LINES = Counter(
    {
        path.name: sum(
            len(file.read_text(encoding="utf-8").splitlines())
            for file in ([path] if path.is_file() else path.rglob("*.py"))
        )
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
)


def test_each_room_has_a_budget() -> None:
    """Also a new one."""
    assert set(LINES) == set(BUDGETS)


def test_a_room_keeps_its_budget() -> None:
    """And has no more of it left than a small change needs."""
    wrong = []
    for room, budget in BUDGETS.items():
        slack = max(SLACK_MIN, budget * SLACK_SHARE)
        if not budget - slack <= LINES[room] <= budget:
            wrong.append(f"{room} has {LINES[room]} lines, its budget is {budget}")
    assert wrong == []
