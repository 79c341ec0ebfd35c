"""Keys in slow start: one of their records has failed or was deferred, and the next ones may do the same.

Pure; the caller has the lock. Of such a key one record goes to a consumer, or all that a failed batch had of
it; once that has ended well two more, then four, and so on. The `Held` keeps the others and owns the key:
another failure takes back only the records that were let go.

What seldom happens (a drain, an end, a stop, a key's pause) ends that first, so it need not know of them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ehkafka.lanes.inbox import EPOCH

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from ehkafka.lanes.held import Held
    from ehkafka.lanes.inbox import Entry, Inbox, Owner
    from ehkafka.lanes.routing import Name, Router

# When so many have ended well at once, all others follow.
WINDOW_MAX: Final = 32


class SlowStart:
    """The keys of one handler that start slowly."""

    def __init__(self, router: Router) -> None:
        self._router = router
        # `behind` of each is where the last record that has gone is. All others of a failed key stay parked:
        # in the backlog, more of them than fit there would leave other keys no room while one is tried.
        self.keys: dict[Name, Held] = {}
        # Those of which a record has ended.
        self._ended: list[Held] = []

    def begin(self, held: Held) -> None:
        """Let the first record go of a key that waits no more; of a batch all that it had of the key."""
        if held.key not in held.owners:
            self.keys[id(held.owners), held.key] = held
            held.owners[held.key] = (held, held.sent)
            self._go_on(held)
        else:
            held.set_parked(parked=False)
            self._router.place_all(list(held.q))

    def note(self, finished: Iterable[Entry]) -> None:
        """Take in what has finished."""
        name_of, get = self._router.name_of, self.keys.get
        self._ended += [held for entry in finished if (held := get(name_of(entry))) is not None]

    def go_on(self) -> None:
        """Let more records go where those before have ended."""
        ended, self._ended = self._ended, []
        for held in ended:
            behind = held.behind
            if self.keys.get((id(held.owners), held.key)) is held and behind is not None:
                inbox, number = behind
                if inbox.noted >= number:
                    held.window *= 2
                    # Batches are filled with what waits, so all of it must be at hand.
                    if self._router.deep or held.window > WINDOW_MAX:
                        self.end(held)
                    else:
                        self._go_on(held)

    def _go_on(self, held: Held) -> None:
        router, window = self._router, held.window
        first = list(islice(held.q, window))
        may_go = router.piles.is_open and all(entry[EPOCH].drain_limit is None for entry in first)
        if not may_go or len(held.q) <= window:
            self.end(held)
            return
        for _ in first:
            held.take_first()
        router.put_all(router.choose(), first)

    # -- what has gone ---------------------------------------------------------------------------------

    def has_moved(self, inbox: Inbox, entry: Entry, number: int) -> bool:
        """Remember where a record of a key in slow start is now; False for other keys'."""
        held = self.keys.get(self._router.name_of(entry))
        if held is None or held is inbox:
            return False
        held.behind = inbox, number
        return True

    def take(self, held: Held) -> None:
        """Forget a key: one of its records has failed, and it waits."""
        self.keys.pop((id(held.owners), held.key), None)
        held.behind = None

    # -- the end ---------------------------------------------------------------------------------------

    def end(self, held: Held) -> None:
        """Let all records of a key go."""
        held.disown()
        self.take(held)
        held.set_parked(parked=False)
        self._router.place_all(list(held.q))

    def end_key(self, owners: dict[Hashable, Owner], key: Hashable) -> None:
        """Let all records of a key go, if it starts slowly."""
        if (held := self.keys.get((id(owners), key))) is not None:
            self.end(held)

    def end_all(self) -> None:
        """Let all records of all keys go."""
        for held in list(self.keys.values()):
            self.end(held)
