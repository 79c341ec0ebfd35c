"""What is seen of `ehkafka top`, and what its keys do. Asks once a second, on a thread of its own."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import on, work
from textual.app import App
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from ehkafka.cli.top import rows
from ehkafka.cli.top.ask import ON_KEYS, Ask, Confirmation, question_of
from ehkafka.cli.top.colours import DARK, LIGHT
from ehkafka.cli.top.panes import Plot, Rows, Tile
from ehkafka.errors import EndpointError
from ehkafka.http.measures import span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from ehkafka.cli.door import Answer, Door

EVERY_S: Final = 1.0
OLD_S: Final = 4.0
SPARKS: Final = (
    ("Handled/s", "spark-handled", "handled_per_s", ""),
    ("Lag", "spark-lag", "lag_records", ""),
    ("Backlog", "spark-backlog", "backlog_records", ""),
    ("Oldest unfinished", "spark-oldest", "oldest_s", " s"),
)


class Top(App[None]):
    """A running app as tiles, sparks and tables. Ends with `q`; the app that it shows goes on."""

    CSS_PATH = "top.tcss"
    TITLE = "ehkafka top"
    ENABLE_COMMAND_PALETTE = False
    # Textual's own name, by which it puts a class on the screen.
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        ("r", "act('retry')", "Retry"),
        ("s", "act('skip')", "Skip"),
        ("d", "act('dead_letter')", "Dead letter"),
        ("p", "act('pause')", "Pause"),
        ("u", "act('resume')", "Resume"),
        ("x", "act('stop')", "Stop"),
        ("b", "act('start')", "Start"),
        ("o", "order", "Order"),
        ("l", "letters", "Read"),
        ("g", "redrive", "Redrive"),
        ("n", "topic", "Next topic"),
        ("t", "colours", "Light or dark"),
        ("q", "quit", "Quit"),
        *((str(n), f"tab({n})", "") for n in range(1, 10)),
    ]

    def __init__(self, door: Door, state: dict[str, Any], *, note: str = "") -> None:
        """`note` is worth knowing as long as it is open."""
        super().__init__()
        self._note = note
        self._door = door
        self._state = state
        # Of the panel of each tab, the column by which it is ordered.
        self._order: dict[str, str | None] = {}
        self._answered_s = time.monotonic()
        # Of the topics of letters, the one that is shown.
        self._topic_number = 0
        self._is_asking = False
        # Why the last question had no answer.
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Make what is seen."""
        yield Static("", id="head", markup=False)
        yield Static("", id="broken", markup=False)
        yield Static("", id="reasons", markup=False)
        with Horizontal(id="tiles"):
            for tile in self._state["tiles"]:
                yield Tile("", id=f"tile-{tile['name']}", markup=False)
        with Horizontal(id="sparks"):
            for heading, name, _, _ in SPARKS:
                yield Plot(heading, name)
        with TabbedContent(id="tabs"):
            with TabPane("What holds it up", id="keys"), Vertical():
                yield Rows(rows.KEY_COLUMNS, "keys")
                with VerticalScroll(id="key-detail"):
                    yield Static("", id="key-text", markup=False)
            with TabPane("Dead letters", id="letters"), Vertical():
                yield Static("", id="letters-note", markup=False)
                yield Rows(rows.LETTER_COLUMNS, "letters")
            for panel in self._state["panels"]:
                with TabPane(panel["title"], id=panel["name"]), Vertical():
                    yield Rows({one["name"]: one["kind"] for one in panel["columns"]}, panel["name"])
                    with VerticalScroll(classes="detail"):
                        yield Static("", id=f"{panel['name']}-text", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Show what was heard already, and go on asking."""
        for theme in (DARK, LIGHT):
            self.register_theme(theme)
        self.theme = DARK.name
        self._offer_letters()
        self._take(self._state)
        self.set_interval(EVERY_S, self._ask)
        self.query_one("#keys-rows").focus()

    def _ask(self) -> None:
        self._show_age()
        if not self._is_asking:
            self._is_asking = True
            self._fetch()

    @work(thread=True, group="state")
    def _fetch(self) -> None:
        problem, state = "", None
        try:
            answer = self._door.state()
            state = answer.body if answer.is_ok else None
            problem = "" if answer.is_ok else answer.text
        except EndpointError as error:
            problem = str(error)
        self._back(self._fetched, state, problem)

    def _back(self, take: Callable[..., None], *answer: object) -> None:
        """Hand an answer to the screen's thread; no screen takes it once the app ends."""
        # It may end between the two: textual then says so, and has no other way to ask.
        with contextlib.suppress(RuntimeError):
            if self.is_running:
                self.call_from_thread(take, *answer)

    def _fetched(self, state: dict[str, Any] | None, problem: str) -> None:
        self._is_asking = False
        self._problem = problem
        if not self._is_whole:
            return
        if state is not None:
            self._answered_s = time.monotonic()
            self._take(state)
        self._show_age()

    def _show_age(self) -> None:
        if not self._is_whole:
            return
        age_s = time.monotonic() - self._answered_s
        is_old = bool(self._problem) or age_s > OLD_S
        broken = self.query_one("#broken", Static)
        broken.display = is_old
        if is_old:
            why = rows.cut(self._problem, 300) or "No answer."
            broken.update(f"{why} This screen is {span(age_s)} old. Still trying.")

    def _take(self, state: dict[str, Any]) -> None:
        self._state = state
        self.query_one("#head", Static).update(rows.head(state))
        reasons = self.query_one("#reasons", Static)
        notes = [*state["health"]["reasons"], *state["health"]["notes"], *rows.silent(state)]
        if self._note:
            notes.insert(0, self._note)
        if not state["access"]["may_act"]:
            notes.append(state["access"]["why_not"])
        reasons.display = bool(notes)
        reasons.set_class(not state["health"]["ok"], "alarm")
        reasons.update("\n".join(rows.cut(text, 300) for text in notes[:4]))
        for tile in state["tiles"]:
            self.query_one(f"#tile-{tile['name']}", Tile).show(tile)
        history = state.get("history") or {}
        for _, name, numbers, unit in SPARKS:
            self.query_one(f"#{name}", Plot).show(history.get(numbers) or [], unit)
        self._table("keys").show(rows.keys(state))
        for panel in state["panels"]:
            self._show_panel(panel)
        self._show_details()

    def _show_panel(self, panel: dict[str, Any]) -> None:
        self._table(panel["name"]).show(rows.panel_rows(panel, self._order.get(panel["name"])))

    def _panel(self, name: str) -> dict[str, Any] | None:
        return next((one for one in self._state["panels"] if one["name"] == name), None)

    @property
    def _is_whole(self) -> bool:
        # At the end messages still come in when the screen is half gone.
        return bool(self.query(f"#{self._state['panels'][-1]['name']}-text"))

    def _table(self, name: str) -> Rows:
        return self.query_one(f"#{name}-rows", Rows)

    @on(DataTable.RowHighlighted)
    def _show_details(self) -> None:
        if not self._is_whole:
            return
        key = self._key()
        overdue = self._state["snapshot"].get("overdue") or ()
        detail = rows.detail(key, overdue) if key else "Nothing waits: no commit is held up."
        self.query_one("#key-text", Static).update(detail)
        for panel in self._state["panels"]:
            chosen = self._table(panel["name"]).chosen
            stack = next((one.get("stack") or "" for one in panel["rows"] if one["name"] == chosen), "")
            text = self.query_one(f"#{panel['name']}-text", Static)
            text.display = bool(stack)
            text.update("\n".join(rows.stack_lines(stack)))

    def _key(self) -> dict[str, Any] | None:
        name = self._table("keys").chosen
        return next((one for one in self._state["keys"] if one["name"] == name), None)

    def _offer_letters(self) -> None:
        none = "The app has no dead-letter topic. To read one: ehkafka dlq list TOPIC."
        has = f"Press l to read the dead letters of {rows.cut(self._topic, 256)}."
        self._note_letters(has if self._topic else none, [])

    @property
    def _topic(self) -> str:
        topics = self._topics()
        return topics[self._topic_number % len(topics)] if topics else ""

    def _topics(self) -> list[str]:
        return list((self._state.get("letters") or {}).get("topics") or [])

    @property
    def _tab(self) -> str:
        return self.query_one("#tabs", TabbedContent).active

    @on(TabbedContent.TabActivated)
    def _tab_changed(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what the tab that is open can do."""
        if action in ("act", "order", "letters", "redrive", "topic") and not self.is_running:
            return False
        if action == "act":
            return parameters[0] in self._actions
        if action == "order":
            return bool((self._panel(self._tab) or {}).get("orders"))
        if action in ("letters", "redrive", "topic"):
            least = 2 if action == "topic" else 1
            return self._tab == "letters" and len(self._topics()) >= least
        return True

    def action_tab(self, number: int) -> None:
        """Open a tab by its number, and go to its rows."""
        panes = [pane.id or "" for pane in self.query(TabPane)]
        self.query_one("#tabs", TabbedContent).active = panes[number - 1]
        self._table(panes[number - 1]).focus()

    def action_colours(self) -> None:
        """Change between light and dark."""
        self.theme = (LIGHT if self.theme == DARK.name else DARK).name

    @property
    def _actions(self) -> Sequence[str]:
        panel = self._panel(self._tab)
        return ON_KEYS if self._tab == "keys" else () if panel is None else panel["actions"]

    def action_order(self) -> None:
        """Order a panel's rows by its next column, or as they come."""
        panel = self._panel(self._tab)
        assert panel is not None
        orders = [None, *panel["orders"]]
        order = orders[(orders.index(self._order.get(self._tab)) + 1) % len(orders)]
        self._order[self._tab] = order
        self._show_panel(panel)
        self.notify(f"Ordered by {order or panel['columns'][0]['name']}.", timeout=2)

    def action_act(self, do: str) -> None:
        """Ask about an action on the row under the cursor."""
        name = self._table(self._tab).chosen
        if name is None:
            return
        key, panel = self._key() if self._tab == "keys" else None, self._panel(self._tab)
        if key is not None and (why := (key.get("refused") or {}).get(do)):
            self.notify(rows.cut(f"{name} {why}", 300), severity="warning", markup=False)
            return
        target = "key" if panel is None else panel["target"]
        self._open(question_of(do, target, name, key, self._door.action))

    def action_redrive(self) -> None:
        """Ask about sending letters home."""
        topic, door = self._topic, self._door

        def send(request: dict[str, Any]) -> Answer:
            return door.redrive(topic, preview=request["preview"])

        self._open(Confirmation("Redrive", topic, {}, send))

    def _open(self, question: Confirmation) -> None:
        if not self._state["access"]["may_act"]:
            self.notify(rows.cut(self._state["access"]["why_not"], 300), severity="warning", markup=False)
            return
        self.push_screen(Ask(question), self._done)

    def _done(self, answer: Answer | None) -> None:
        if answer is not None:
            self.notify(rows.cut(answer.text, 600), markup=False)

    def action_letters(self) -> None:
        """Read the letters."""
        self._note_letters("Reading …")
        self._read_letters(self._topic)

    def action_topic(self) -> None:
        """Go to the letters of the next topic."""
        self._topic_number += 1
        self._offer_letters()

    @work(thread=True, group="letters", exclusive=True)
    def _read_letters(self, topic: str) -> None:
        found: list[dict[str, Any]] = []
        try:
            answer = self._door.letters(topic)
            note = rows.letters_note(topic, answer.body, answer.text)
            found = list(answer.body.get("letters") or ()) if answer.is_ok else []
        except EndpointError as error:
            note = rows.cut(error, 300)
        self._back(self._note_letters, note, found)

    def _note_letters(self, note: str, found: list[dict[str, Any]] | None = None) -> None:
        if not self._is_whole:
            return
        self.query_one("#letters-note", Static).update(note)
        if found is not None:
            self._table("letters").show(rows.letters(found))
