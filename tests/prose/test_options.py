"""`docs/reference/options.md` is what the commands take now."""

from __future__ import annotations

from tests.prose.options import FILE, commands, options_of, page


def test_the_page_is_what_the_commands_take_now() -> None:
    """`python -m tests.prose.options` writes it anew."""
    assert FILE.read_text() == page(), "run `python -m tests.prose.options`"


def test_each_option_says_what_it_does_and_each_time_its_unit() -> None:
    """A time is a number that need not be whole, and there is no other such number."""
    found = [(name, command, options_of(name, command)) for name, command in commands()]
    assert len(found) > 20
    options = [(name, option) for name, _, options in found for option in options]
    assert [(name, option.name) for name, option in options if not option.meaning.strip()] == []
    times = [option for _, option in options if option.name.endswith((" NUMBER", " SECONDS"))]
    assert len(times) > 20
    assert [
        option for option in times if not option.name.endswith("SECONDS") and "Seconds" not in option.meaning
    ] == []
