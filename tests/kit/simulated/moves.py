"""What happens to a simulated member's chunks at any moment: ended early, turned on and off by their cost.

The poll thread ends them as its watch does; the rest is what workers say of costs, without the lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ehkafka.lanes.chunk import Chunk
    from ehkafka.lanes.express import Express
    from tests.kit.simulated.member import SimulatedMember


class ChunkMoves:
    """One member's. Nothing happens where it has no chunks that run."""

    def __init__(self, member: SimulatedMember) -> None:
        self._member = member
        self._world = member.world
        self._express: Express | None = member.dispatcher.express if member.late is None else None

    def note_chunk(self) -> None:
        """Hear that a worker is done with a chunk: what it cost may change how the next ones go."""
        if self._world.plan.flip_share > 0:
            self._flip()

    def watch(self) -> None:
        """Do what the poll thread's watch does."""
        if self._express is None:
            return
        self._flip()
        rng, share = self._world.rng, self._world.plan.steal_share
        for chunk in self._out(self._express):
            if chunk.started() and rng.random() < share:
                with self._member.locked() as dispatcher:
                    self._world.note(self._member.name, "ends a chunk early")
                    dispatcher.end_early(chunk)

    def _flip(self) -> None:
        rng, plan = self._world.rng, self._world.plan
        if self._express is None or rng.random() >= plan.flip_share:
            return
        self._express.on = not self._express.on
        streams = self._member.streams
        if streams is not None and plan.stream_records_max:
            streams.records_max = rng.choice([0, plan.stream_records_max])
            streams.workers = 1 + rng.randrange(plan.workers)

    def _out(self, express: Express) -> list[Chunk]:
        """Return what may be ended early."""
        batches, streams = self._member.batches, self._member.streams
        if batches is not None:
            return list(batches.due.taken_s)[:1]
        return [*([] if express.out is None else [express.out]), *(streams.live if streams else ())]
