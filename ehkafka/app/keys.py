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
    """The keys of a running app that keep a commit from moving, and actions on keys. Made by `App.keys`.

    If an action cannot be done, it raises `ActionRefusedError` and changes nothing. If an action has no
    effect, `ActionResult.changed` is False. Each action is logged and counted, and makes an event
    (`ActionTaken`, `ActionRefused`).
    """

    def __init__(self, run: Callable[[], Run]) -> None:
        self._run = run

    def blocking(self, *, values: bool = False) -> list[KeyState]:
        """Return the records that commits wait for, one for each partition that has one; the oldest first.

        - `values` (default `False`): whether the result has the beginning of each record's value.
        """
        return [one for one in self.waiting(values=values) if one.is_blocking]

    def waiting(self, *, values: bool = False) -> list[KeyState]:
        """Return the records of `blocking`, then other keys that wait or are on hold, up to 1 000.

        Arguments are those of `blocking`.
        """
        return self._run().keys(values=values)

    def pause(
        self, name: str, *, for_s: float | None = None, keep: bool = False, by: str | None = None
    ) -> ActionResult:
        """Start no more records of a key; a running call ends first. `resume` ends the pause.

        - `name` (required): the key's oldest unfinished record, `TOPIC/PARTITION@OFFSET` as `blocking()` has
          it, or the key's text: UTF-8, otherwise `base64:…`, and JSON for keys that are not bytes.
        - `for_s` (seconds, default `None`): after how long the pause ends, up to a year. None: the pause does
          not end by itself.
        - `keep` (default `False`): whether the pause stays after a rebalance, at the partition's next
          assignment in this process.
        - `by` (default `None`): who requests the action, for the log. None: `the app's own code`.
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
        """Skip a key's first record, which must not be running: the commit moves on, and the key continues.

        If the key waits for a call of an earlier assignment, `skip` ends the wait: the key's next records can
        start although this call still runs. Then only the record of this call is skipped.

        - `offset` (default `None`): refuse if the key's first record has another offset. None: any offset.
        - `all` (default `False`): whether to skip all queued records of the key. False: only the first one.
        - `preview` (default `False`): whether to do nothing, and only return the effect that the action would
          have.

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
        """Send a key's first record, which must not be running, to the handler's dead letters.

        Arguments are those of `skip`.
        """
        return self._do("dead_letter", name, offset=offset, all=all, preview=preview, by=by)

    def pause_partition(
        self, name: str, *, for_s: float | None = None, keep: bool = False, by: str | None = None
    ) -> ActionResult:
        """Receive no more records of a partition; received records are handled.

        - `name` (required): `TOPIC/PARTITION`.

        The other arguments are those of `pause`.
        """
        return self._do("pause", name, "partition", for_s=for_s, keep=keep, by=by)

    def resume_partition(self, name: str, *, by: str | None = None) -> ActionResult:
        """Receive a paused partition again. Arguments are those of `pause_partition`."""
        return self._do("resume", name, "partition", by=by)

    def stop_handler(self, name: str, *, by: str | None = None) -> ActionResult:
        """Start no more calls of a handler, and receive no more records for it.

        - `name` (required): the name of the handler's function or class.
        - `by` (default `None`): who requests the action, for the log. None: `the app's own code`.
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
