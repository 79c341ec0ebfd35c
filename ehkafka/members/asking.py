"""Asks the members of one supervisor for their state, and has the one that has a key act on it.

Any thread but the main one, which carries questions and answers; it hears nothing new.
"""

from __future__ import annotations

import threading
from concurrent.futures import wait
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from ehkafka.errors import ActionRefusedError
from ehkafka.http.answers import OK, States
from ehkafka.run.steer.action import ActionResult, refused
from ehkafka.run.steer.keys import KeyState
from ehkafka.run.steer.names import parse_head, parse_partition, partition_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from ehkafka.http.answers import Answer
    from ehkafka.members.member import Member
    from ehkafka.members.process import MemberProcess
    from ehkafka.run.steer.action import Action

# How long who asks all of them waits for fresh answers.
FRESH_S: Final = 1.0
# For an action; a member's poll loop has 5 s of it.
ACT_S: Final = 8.0


class Asking:
    """Asks the members of one supervisor."""

    def __init__(self, members: Sequence[Member], now_s: Callable[[], float]) -> None:
        self._members = members
        self._now_s = now_s
        # Whether members are to count how long calls take. Set once, by any thread.
        self.measures = False

    def ask_state(self, process: MemberProcess, *, values: bool | None = None) -> Future[Answer]:
        """Ask for a state: `values` says whether its keys have them; with None it has no lists."""
        return process.channel.ask("/state", {"measure": self.measures, "values": values})

    def refresh(self, *, values: bool | None = None) -> list[Member]:
        """Ask all for their states, as `ask_state` does, and return the members that answered in time.

        However many members there are, and however many of them are stuck, it takes no longer than that: one
        that has missed a question is not asked.
        """
        if threading.current_thread() is threading.main_thread():
            return []
        now_s = self._now_s()
        asked = {
            self.ask_state(process, values=values): (member, process)
            for member in self._members
            if (process := member.process) is not None and member.silence_s(now_s) < 2 * FRESH_S
        }
        done = wait(asked, FRESH_S).done
        found = [(future, *asked[future]) for future in asked if future in done]
        return [
            member
            for future, member, process in found
            if member.process is process and member.take(future, self._now_s())
        ]

    def states(self, *, values: bool) -> list[States]:
        """Return all states. A member that does not answer in time has its last one, and is marked so."""
        answered = self.refresh(values=values)
        return [
            States(one.number, one.before, one.document, one.process is not None and one not in answered)
            for one in self._members
        ]

    def keys(self, *, values: bool) -> list[KeyState]:
        """Return the keys of all that answer: those that hold a commit first, by age, then the others."""
        # The snapshot says of the others that they do not answer.
        names = [field.name for field in fields(KeyState)]
        found = [
            KeyState(**{name: one[name] for name in names})
            for member in self.refresh(values=values)
            for one in member.document.get("keys", ())
        ]
        return sorted(found, key=lambda one: (not one.is_blocking, -one.age_s))

    def act(self, action: Action) -> ActionResult:
        """Have the member carry it out that has the key. Raises `ActionRefusedError`.

        A handler is started and stopped in all members, one after another.
        """
        action.check()
        running = [one for one in self._members if one.process is not None]
        if action.target == "handler":
            return self._act_in_all(running, action)
        partition = parse_partition(action.name) if action.target == "partition" else None
        if action.target == "key" and (head := parse_head(action.name)) is not None:
            partition = head[0]
        if partition is None:
            return self._act(self._who_knows(running, action), action)
        member = next((one for one in self._members if one.has(partition)), None)
        if member is None:
            raise refused(
                "elsewhere",
                f"{partition_name(partition)} is assigned to no member of this app. Run ehkafka owners to "
                f"find the partition's owner.",
            )
        return self._act(member, action)

    def _act_in_all(self, running: list[Member], action: Action) -> ActionResult:
        results = [self._act(member, action) for member in running]
        if not results:
            raise refused("stopped", "Nothing was done: no member runs.")
        changed = sum(result.changed for result in results)
        text = f"{results[0].text.removesuffix('.')} (in {changed} of {len(results)} members)."
        return replace(results[0], text=text, changed=changed > 0)

    def _who_knows(self, running: list[Member], action: Action) -> Member:
        """Return the member that has a key of that text. Raises `ActionRefusedError` for none and several."""
        asked = replace(action, preview=True, offset=None)
        known: dict[int, tuple[str, ...]] = {}
        unknown: ActionRefusedError | None = None
        for member in running:
            try:
                known[member.number] = (self._act(member, asked).name,)
            except ActionRefusedError as error:
                if error.reason == "unknown":
                    unknown = error
                elif error.reason in ("busy", "stopped"):  # it may have the key, too
                    why = f"Nothing was done: member {member.number} did not answer whether it has the key."
                    raise refused("busy", f"{why} {error}") from None
                else:  # it has the key, and says why it would not do it
                    known[member.number] = error.names
        if len(known) == 1:
            return self._members[next(iter(known)) - 1]
        if not known:
            raise unknown or refused("stopped", "Nothing was done: no member runs.")
        names = tuple(name for some in known.values() for name in some)
        text = f"Several members have a key {action.name!r}: give one of these names: {', '.join(names)}."
        raise refused("ambiguous", text, names)

    def _act(self, member: Member, action: Action) -> ActionResult:
        if (process := member.process) is None:
            raise refused("busy", f"Nothing was done: member {member.number} does not run.")
        try:
            status, body = process.channel.ask("/actions", action.as_dict()).result(ACT_S)
        except (ConnectionError, TimeoutError) as error:
            why = str(error) or f"it has not answered within {ACT_S:g} s"
            text = (
                f"The action may or may not have been done: member {member.number}: {why}. Check "
                f"its effect before you repeat the action."
            )
            raise refused("busy", text) from None
        if status == OK:
            return ActionResult(**body)
        raise refused(body["reason"], f"Member {member.number}: {body['text']}", tuple(body["names"]))
