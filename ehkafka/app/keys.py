"""Actions on keys: what `App.keys` offers. Any thread; with members it asks the one that has the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ehkafka.run.steer.action import Action

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ehkafka.run.run import Run
    from ehkafka.run.steer.action import ActionResult
    from ehkafka.run.steer.keys import KeyState


class Keys:
    """The keys of a running app: which of them hold a commit, and actions on each. Made by `App.keys`.

    All actions raise `ActionRefusedError` for what cannot be done; then nothing has changed. An action that
    finds all as it is to be changes nothing, and `ActionResult.changed` is False. Each is logged, counted and
    an event (`ActionTaken`, `ActionRefused`).
    """

    def __init__(self, run: Callable[[], Run]) -> None:
        self._run = run

    def blocking(self, *, values: bool = False) -> list[KeyState]:
        """Return, for each partition that has one, the record that holds its commit; the oldest first.

        - `values` (default `False`): whether each has the beginning of its value.
        """
        return [one for one in self.waiting(values=values) if one.is_blocking]

    def waiting(self, *, values: bool = False) -> list[KeyState]:
        """Return the same, and behind them the other keys that wait by themselves, up to 1 000.

        Arguments are those of `blocking`.
        """
        return self._run().keys(values=values)

    def pause(
        self, name: str, *, for_s: float | None = None, keep: bool = False, by: str | None = None
    ) -> ActionResult:
        """Start nothing more of a key; what runs ends first. `resume` ends the pause.

        - `name` (required): the key's oldest unfinished record, `TOPIC/PARTITION@OFFSET` as `blocking()` has
          it, or the key's text: UTF-8, else `base64:…`, and JSON for keys that are no bytes.
        - `for_s` (seconds, default `None`): the pause ends by itself after so long, a year at most. None: it
          does not.
        - `keep` (default `False`): whether the partition's next assignment in this process takes the pause
          over. Else it ends when the partition goes.
        - `by` (default `None`): who asks, for the log and the event. None: `the app's own code`.
        """
        return self._do("pause", name, for_s=for_s, keep=keep, by=by)

    def resume(self, name: str, *, by: str | None = None) -> ActionResult:
        """Let a paused key continue. Arguments are those of `pause`."""
        return self._do("resume", name, by=by)

    def retry(self, name: str, *, offset: int | None = None, by: str | None = None) -> ActionResult:
        """Call the handler again now for a key whose first record is on hold, or waits for its next attempt.

        Arguments are those of `skip`.
        """
        return self._do("retry", name, offset=offset, by=by)

    def skip(
        self,
        name: str,
        *,
        offset: int | None = None,
        all: bool = False,  # noqa: A002 - as the command line and the page call it
        preview: bool = False,
        by: str | None = None,
    ) -> ActionResult:
        """Skip a key's first record, which does not run: the commit may pass it, and its key continues.

        Where the key waits for a call that outlives its assignment, this ends that wait: its next records may
        start though that call still runs. Of them the very record of that call is skipped, no other one.

        - `offset` (default `None`): refuse if another record is the key's first by now. None: whichever is.
        - `all` (default `False`): whether every record of the key that is queued here is meant, or the first
          only.
        - `preview` (default `False`): whether nothing is done, and the result tells what would be.

        The other arguments are those of `pause`.
        """
        return self._do("skip", name, offset=offset, all=all, preview=preview, by=by)

    def dead_letter(
        self,
        name: str,
        *,
        offset: int | None = None,
        all: bool = False,  # noqa: A002 - as above
        preview: bool = False,
        by: str | None = None,
    ) -> ActionResult:
        """Send a key's first record, which does not run, to the handler's dead letters.

        Arguments are those of `skip`.
        """
        return self._do("dead_letter", name, offset=offset, all=all, preview=preview, by=by)

    def pause_partition(
        self, name: str, *, for_s: float | None = None, keep: bool = False, by: str | None = None
    ) -> ActionResult:
        """Receive nothing more of a partition; received records are handled.

        - `name` (required): `TOPIC/PARTITION`.

        The other arguments are those of `pause`.
        """
        return self._do("pause", name, "partition", for_s=for_s, keep=keep, by=by)

    def resume_partition(self, name: str, *, by: str | None = None) -> ActionResult:
        """Receive a paused partition again. Arguments are those of `pause_partition`."""
        return self._do("resume", name, "partition", by=by)

    def stop_handler(self, name: str, *, by: str | None = None) -> ActionResult:
        """Start nothing more of a handler, and receive nothing for it.

        - `name` (required): the name of its function or class.
        - `by` (default `None`): who asks, for the log and the event. None: `the app's own code`.
        """
        return self._do("stop", name, "handler", by=by)

    def start_handler(self, name: str, *, by: str | None = None) -> ActionResult:
        """Start a stopped handler again. Arguments are those of `stop_handler`."""
        return self._do("start", name, "handler", by=by)

    def act(self, asked: Mapping[str, object]) -> ActionResult:
        """Inner: carry out an action that came from outside, as plain values: `Action` has their names."""
        return self._run().act(Action.of(asked))

    def _do(self, do: str, name: str, target: str = "key", **how: object) -> ActionResult:
        asked = {one: value for one, value in how.items() if value is not None}
        return self.act({"do": do, "target": target, "name": name, **asked})
