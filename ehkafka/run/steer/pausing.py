"""Pauses keys and partitions and stops handlers, in this assignment and in the next. Poll thread only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ehkafka.intake.by_hand import ByHand
    from ehkafka.intake.context import IntakeContext
    from ehkafka.intake.route import Route
    from ehkafka.lanes.epoch import Epoch
    from ehkafka.lanes.inboxes import Inboxes
    from ehkafka.records import TopicPartition


class Paused(NamedTuple):
    """A key of a partition that is paused, or with `key` None the partition itself.

    A key as wide as its handler has no partition.
    """

    handler: str
    partition: TopicPartition | None
    key: Hashable
    is_key: bool


class Pausing:
    """Keys and partitions that a command has paused. Never stored: a pause belongs to the process."""

    def __init__(self, context: IntakeContext, routes: Sequence[Route], by_hand: ByHand) -> None:
        self._context = context
        self._routes = {route.name: route for route in routes}
        self._by_hand = by_hand
        # When each pause ends by itself, None where no time was given; and which of them a new assignment
        # takes over.
        self._until_s: dict[Paused, float | None] = {}
        self._kept: set[Paused] = set()
        # Handlers that are stopped, by route.
        self._stopped: set[str] = set()
        # The epochs that have taken over what is kept.
        self._epochs: dict[TopicPartition, int] = {}

    def pause(self, paused: Paused, for_s: float | None, *, keep: bool) -> None:
        """Pause a key or a partition; where it was paused already, the later wish counts."""
        self._until_s[paused] = None if for_s is None else self._context.clock() + for_s
        (self._kept.add if keep else self._kept.discard)(paused)
        self._begin(paused)

    def resume(self, paused: Paused) -> bool:
        """Let it go on, and forget about it; False where it was not paused."""
        self._until_s.pop(paused, None)
        self._kept.discard(paused)
        return self._end(paused)

    def is_paused(self, paused: Paused) -> bool:
        """Tell whether it is paused now."""
        if not paused.is_key:
            return paused.partition in self._context.flow.by_hand
        if paused.partition is not None and paused.partition not in self._context.owned:
            return False
        with self._routes[paused.handler].hub.locked(noted=False) as inboxes:
            epoch = self._epoch(paused, inboxes)
            held = None if epoch is None else inboxes.waiting.find(paused.key, epoch)
            return held is not None and held.is_paused

    def paused_keys(self) -> list[Paused]:
        """Return the keys that are paused, those without a record now included."""
        return [one for one in self._until_s if one.is_key]

    def stop(self, route: Route) -> None:
        """Start nothing more of a handler, and receive nothing for it."""
        self._stopped.add(route.name)
        with route.hub.locked() as inboxes:
            inboxes.router.piles.stop()
        self._by_hand.pause(self._partitions(route))

    def start(self, route: Route) -> None:
        """End that; what is paused by itself stays so."""
        self._stopped.remove(route.name)
        with route.hub.locked() as inboxes:
            inboxes.router.piles.resume()
        paused = {one.partition for one in self._until_s if not one.is_key}
        self._by_hand.resume(where for where in self._partitions(route) if where not in paused)

    def is_stopped(self, route: Route) -> bool:
        """Tell whether a handler was stopped by hand."""
        return route.name in self._stopped

    def check(self) -> list[Paused]:
        """End pauses whose time is over, and return them; have new assignments take over what is kept."""
        now_s, owned = self._context.clock(), self._context.owned
        over = [one for one, until_s in self._until_s.items() if until_s is not None and until_s <= now_s]
        over = [one for one in over if self.resume(one)]
        new = {where for where, one in owned.items() if self._epochs.get(where) != one.epoch.number}
        if new or len(owned) != len(self._epochs):
            self._epochs = {where: one.epoch.number for where, one in owned.items()}
            # A pause that is not kept ended with its epoch, even if the partition is ours again already.
            gone = self._until_s.keys() - self._kept
            for one in [one for one in gone if one.partition and one.partition not in owned.keys() - new]:
                del self._until_s[one]
            for one in self._kept:
                if one.partition is None or one.partition in new:
                    self._begin(one)
            self._by_hand.pause(where for where in new if self.is_stopped(owned[where].route))
        return over

    def _begin(self, paused: Paused) -> None:
        if not paused.is_key:
            assert paused.partition is not None
            self._by_hand.pause([paused.partition])
            return
        with self._routes[paused.handler].hub.locked() as inboxes:
            if (epoch := self._epoch(paused, inboxes)) is not None:
                inboxes.waiting.pause_key(paused.key, epoch)

    def _end(self, paused: Paused) -> bool:
        if not self.is_paused(paused):
            return False
        if not paused.is_key:
            assert paused.partition is not None
            owned = self._context.owned.get(paused.partition)
            if owned is None or not self.is_stopped(owned.route):
                self._by_hand.resume([paused.partition])
            return True
        with self._routes[paused.handler].hub.locked() as inboxes:
            epoch = self._epoch(paused, inboxes)
            return epoch is not None and inboxes.waiting.resume_key(paused.key, epoch)

    def _epoch(self, paused: Paused, inboxes: Inboxes) -> Epoch | None:
        """Return an epoch whose keys a paused one is among; None where its handler has no partition."""
        if paused.partition is None:
            return next(iter(inboxes.router.epochs.values()), None)
        return self._context.owned[paused.partition].epoch

    def _partitions(self, route: Route) -> list[TopicPartition]:
        return [where for where, one in self._context.owned.items() if one.route is route]
