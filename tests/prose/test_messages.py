"""`docs/reference/messages.md` is what the package says: each event and error with values, and messages."""

from __future__ import annotations

from tests.kit.events import event_kinds
from tests.prose.messages import FILE, made, page


def test_the_page_is_what_the_package_says_now() -> None:
    """`python -m tests.prose.messages` writes it anew."""
    assert FILE.read_text() == page(), "run `python -m tests.prose.messages`"


def test_each_event_makes_a_sentence_of_real_values() -> None:
    """Whole or sparse: one line that ends once and shows neither None nor the code of a value."""
    sentences = [
        made(kind, is_sparse=sparse).sentence() for kind in event_kinds() for sparse in (False, True)
    ]
    assert all(sentences)
    flaws = ("\n", "None", "TopicPartition(", "..", "  ")
    assert [sentence for sentence in sentences if any(flaw in sentence for flaw in flaws)] == []
