"""`docs/messages.md` is what the package says now: each event and error with real values, each message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.events import event_kinds
from tests.prose.messages import FILE, made, page

if TYPE_CHECKING:
    from ehkafka.events import Event


def test_the_page_is_what_the_package_says_now() -> None:
    """`python -m tests.prose.messages` writes it anew."""
    assert FILE.read_text() == page(), "run `python -m tests.prose.messages`"


@pytest.mark.parametrize("kind", sorted(event_kinds(), key=str), ids=lambda kind: kind.__name__)
def test_each_event_makes_a_sentence_of_real_values(kind: type[Event]) -> None:
    """Whole or sparse: one line that ends once and shows neither None nor the code of a value."""
    for is_sparse in (False, True):
        sentence = made(kind, is_sparse=is_sparse).sentence()
        assert sentence
        assert "\n" not in sentence
        assert not any(flaw in sentence for flaw in ("None", "TopicPartition(", "..", "  "))
