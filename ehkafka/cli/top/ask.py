"""The dialog before an action: what the server says it will do, and whether to do it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on, work
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, Select, Static

from ehkafka.cli.door import Answer
from ehkafka.cli.top.rows import LINE_CHARACTERS_MAX, cut
from ehkafka.errors import EndpointError

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.app import ComposeResult
    from textual.binding import BindingType

UNTIL_RESUMED: Final = 0
PAUSES: Final = (
    ("until it is resumed", UNTIL_RESUMED),
    ("for 5 minutes", 300),
    ("for an hour", 3_600),
    ("for a day", 86_400),
)
VERBS: Final = {
    "pause": "Pause",
    "resume": "Resume",
    "retry": "Retry",
    "skip": "Skip",
    "dead_letter": "Dead letter",
    "stop": "Stop",
    "start": "Start",
}
ON_KEYS: Final = ("pause", "resume", "retry", "skip", "dead_letter")
ALL_OF_A_KEY: Final = ("skip", "dead_letter")


@dataclass(frozen=True, slots=True)
class Confirmation:
    """An action before it is confirmed. `send` gets the request, with `preview` in it, on another thread."""

    verb: str
    subject: str
    request: dict[str, Any]
    send: Callable[[dict[str, Any]], Answer]
    # Of the key, where all of them can be meant.
    records: int = 0
    options: frozenset[str] = field(default=frozenset())


def question_of(
    do: str, target: str, name: str, key: dict[str, Any] | None, send: Callable[[dict[str, Any]], Answer]
) -> Confirmation:
    """Return the question about a row; `key` is the key that it shows."""
    request: dict[str, Any] = {"do": do, "target": target, "name": name}
    options = {"for_s", "keep"} if do == "pause" else set[str]()
    if key is None:
        return Confirmation(VERBS[do], name, request, send, options=frozenset(options))
    request["offset"] = key["offset"]
    if do in ALL_OF_A_KEY and key["records"] > 1:
        options.add("all")
    return Confirmation(VERBS[do], f"{key['key']}, {name}", request, send, key["records"], frozenset(options))


class Ask(ModalScreen[Answer | None]):
    """Ends with the server's answer, or with None when nothing was done."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss_nothing", "Cancel")]

    def __init__(self, question: Confirmation) -> None:
        super().__init__()
        self._question = question
        # Only of the last question.
        self._number = 0

    def compose(self) -> ComposeResult:
        """Make the dialog."""
        asked = self._question
        with Vertical(id="dialog"):
            yield Static(f"{asked.verb}?", id="dialog-title", markup=False)
            yield Static(cut(asked.subject, LINE_CHARACTERS_MAX), id="dialog-subject", markup=False)
            if "all" in asked.options:
                yield Checkbox(f"All {asked.records:,} records of the key", id="dialog-all")
            if "for_s" in asked.options:
                yield Select(PAUSES, value=UNTIL_RESUMED, allow_blank=False, id="dialog-for")
                yield Checkbox("Keep the pause if this process gets the partition again", id="dialog-keep")
            yield Static("", id="dialog-text", markup=False)
            with Horizontal(id="dialog-buttons"):
                yield Button("Cancel", id="dialog-cancel")
                yield Button(asked.verb, variant="primary", id="dialog-confirm", disabled=True)

    def on_mount(self) -> None:
        """Nothing is done by an Enter that was meant for something else."""
        self.query_one("#dialog-cancel").focus()
        self._preview()

    @on(Checkbox.Changed)
    @on(Select.Changed)
    def _changed(self) -> None:
        self._preview()

    @on(Button.Pressed, "#dialog-cancel")
    def action_dismiss_nothing(self) -> None:
        """Close it."""
        self.dismiss(None)

    @on(Button.Pressed, "#dialog-confirm")
    def _confirmed(self) -> None:
        self._number += 1
        self.query_one("#dialog-confirm", Button).disabled = True
        self._send(self._request(preview=False), self._number)

    def _preview(self) -> None:
        self._number += 1
        self.query_one("#dialog-confirm", Button).disabled = True
        self.query_one("#dialog-text", Static).update("Asking for a preview …")
        self._send(self._request(preview=True), self._number)

    def _request(self, *, preview: bool) -> dict[str, Any]:
        options = self._question.options
        request = self._question.request | {"preview": preview}
        if "all" in options:
            request["all"] = self.query_one("#dialog-all", Checkbox).value
        if "for_s" in options:
            request["for_s"] = self.query_one("#dialog-for", Select).value or None
            request["keep"] = self.query_one("#dialog-keep", Checkbox).value
        return request

    @work(thread=True)
    def _send(self, request: dict[str, Any], number: int) -> None:
        try:
            answer = self._question.send(request)
        except EndpointError as error:
            text = (
                str(error)
                if request["preview"]
                else f"{error} The action may have been done: check its effect before you repeat it."
            )
            answer = Answer(0, {"text": text})
        # The app may end between the two: textual then says so, and has no other way to ask.
        with contextlib.suppress(RuntimeError):
            if self.app.is_running:
                self.app.call_from_thread(self._answered, answer, number, is_preview=request["preview"])

    def _answered(self, answer: Answer, number: int, *, is_preview: bool) -> None:
        if number != self._number or not self.is_current:
            return
        if answer.is_ok and not is_preview:
            self.dismiss(answer)
            return
        names = "".join(f"\n  {cut(name, 200)}" for name in answer.body.get("names") or ())
        text = self.query_one("#dialog-text", Static)
        text.update(cut(answer.text, 600) + names)
        text.set_class(not answer.is_ok, "refused")
        self.query_one("#dialog-confirm", Button).disabled = not answer.is_ok
