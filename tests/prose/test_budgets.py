"""Each room and each page has no more of the words that readers stumble over than its budget permits."""

from __future__ import annotations

import pytest

from tests.prose.budgets import budgets, found, slack_of
from tests.prose.rules import RULES, Rule
from tests.prose.texts import prose_of

SHOWN_MAX = 40


# Not by what all texts name: reading them takes seconds, and each process of a parallel run collects tests.
@pytest.mark.parametrize("room", sorted(budgets()))
def test_a_room_keeps_its_budget(room: str) -> None:
    """A new word is shown with its place and better words; what became better lowers the budget."""
    budget, hits = budgets()[room], found().get(room, [])
    assert len(hits) <= budget, shown(room, budget)
    assert len(hits) >= budget - slack_of(budget), (
        f"{room} has {len(hits)} such words only: run `python -m tests.prose.budgets` to lower its {budget}"
    )


def test_a_room_without_a_budget_has_none() -> None:
    """Also one that is new."""
    assert not (rooms := sorted(set(found()) - set(budgets()))), "\n".join(shown(room, 0) for room in rooms)


def shown(room: str, budget: int) -> str:
    """Return where a room has words, and what would be better."""
    hits = found()[room]
    lines = [f"  {text.place}: {word!r} → {rule.better}" for text, word, rule in hits[:SHOWN_MAX]]
    return "\n".join([f"{room} has {len(hits)} such words, {budget} are permitted:", *lines])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.better)
def test_each_rule_finds_what_it_is_for(rule: Rule) -> None:
    """Its example, in any case of letters; and not the words that it recommends."""
    assert rule.pattern.search(rule.example)
    assert not rule.pattern.search(rule.better)


def test_code_and_old_names_are_no_prose() -> None:
    """Lines keep their numbers."""
    page = "a `nobody` b\n```python\nnobody\n```\n[x](nobody.md)\n| was | is |\n|---|---|\n| nobody | c |\nd"
    assert prose_of(page).splitlines() == ["a … b", "", "", "", "[x…", "", "", "", "d"]
