"""The table of answers, the page that has them, and what the package says agree with each other."""

from __future__ import annotations

import re

import pytest

from ehkafka import errors
from ehkafka.checks.run import PROBES
from ehkafka.endpoint.causes import CAUSES
from ehkafka.events import ConnectionProblem
from ehkafka.events.event import without_numbers
from ehkafka.wording.answers import ANSWERS, PAGE, Section, answer_to, with_answer
from tests.kit.events import event_kinds
from tests.kit.pages import ROOT
from tests.prose.messages import error_kinds, made
from tests.prose.texts import docstrings_and_messages

KINDS = {kind.__name__ for kind in (*error_kinds(), *event_kinds())} | set(PROBES)
ANSWERED = {(answer.anchor, kind) for answer in ANSWERS for kind in answer.kinds.split()}
# What librdkafka says of a connection to a port without TLS.
OF_THE_CLIENT = "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker listener?"
WORDS = {word for answer in ANSWERS for word in answer.words if word}


def sections() -> dict[str, str]:
    """Return the page's sections by their anchors, which are made of the headings."""
    found = re.split(r"^### ", (ROOT / PAGE).read_text(), flags=re.MULTILINE)[1:]
    headings = (one.partition("\n")[0].lower() for one in found)
    return dict(zip((re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in headings), found, strict=True))


def test_each_anchor_is_on_the_page_and_each_section_is_named_by_something() -> None:
    """A heading that is renamed, or one that nothing leads to, is found here."""
    assert set(sections()) == {answer.anchor for answer in ANSWERS}


def test_each_kind_is_an_error_an_event_or_a_step_of_check() -> None:
    """And each class of our errors has an answer, except the one that all are."""
    named = {kind for _, kind in ANSWERED}
    assert named <= KINDS
    assert {kind.__name__ for kind in error_kinds()} - named == {"EhkafkaError"}


def test_the_words_are_said_somewhere() -> None:
    """In a text of the package other than the table, or as the name of an error of the client."""
    texts = (text for text in docstrings_and_messages() if "wording/answers.py" not in text.place)
    said = [OF_THE_CLIENT, *(f"{name} (" for name in CAUSES), *(text.text for text in texts)]
    assert {words for words in WORDS if not any(words in text for text in said)} == set()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.anchor}: {answer.words[0]}")
def test_a_section_shows_the_texts_that_lead_to_it(answer: Section) -> None:
    """Its reader finds the own line again: the words that count, or how the sentence of each event begins."""
    shown = sections()[answer.anchor]
    assert [words for words in answer.words if words.removesuffix(" (") not in shown] == []
    kinds = [
        kind for kind in event_kinds() if answer.words == ("",) and kind.__name__ in answer.kinds.split()
    ]
    begun = {kind.__name__: without_numbers(made(kind, is_sparse=False).sentence())[:11] for kind in kinds}
    assert {name for name, begin in begun.items() if begin not in without_numbers(shown)} == set()


SAID = [
    (errors.EndpointError("x: _RESOLVE (no such name)"), "the-host-name-is-not-found"),
    (
        errors.EndpointError("The broker refuses access: GROUP_AUTHORIZATION_FAILED (no)"),
        "the-broker-refuses-access",
    ),
    (errors.EndpointError("A record was not written: MSG_SIZE_TOO_LARGE (no)"), "a-message-is-too-large"),
    (errors.ConfigurationError("it has 9 bytes; the limit is 8"), "a-message-is-too-large"),
    (errors.TopicNotFoundError("There is no topic 'a'"), "there-is-no-topic"),
    (errors.OffsetGapError("orders[0] does not answer"), "the-next-offset-is-gone"),
    (errors.MissingExtraError("HTTP needs the extra [web]"), "an-extra-is-missing"),
    (errors.ConfigurationError("start is missing: set where"), "start-is-missing"),
    (errors.ConfigurationError("workers=0: give a number"), None),
    (errors.UnfinishedError("Not caught up: 1 record waits"), "the-run-has-not-caught-up"),
    (errors.HandlerFailedError("_SSL (what the user's own client met)"), "the-handler-failed"),
    (ConnectionProblem("close", "the client did not close within 1 s", fatal=False), None),
    (ValueError("start is missing"), None),
]


@pytest.mark.parametrize(("error", "anchor"), SAID, ids=str)
def test_an_error_is_answered_by_its_class_and_its_words(error: object, anchor: str | None) -> None:
    """Its own class counts before those that it is made of, and words that another kind's text has do not."""
    text = str(error)
    assert with_answer(text, error) == (text if anchor is None else f"{text}. See {PAGE}#{anchor}.")


def test_a_step_of_check_is_answered_by_its_name() -> None:
    """Whatever was seen there; a step without a section has nothing."""
    assert answer_to("a.b has no address", "dns") == f"See {PAGE}#the-host-name-is-not-found."
    assert answer_to("it is 9 s behind", "clock") == ""
