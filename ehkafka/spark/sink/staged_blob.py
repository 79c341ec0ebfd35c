"""Bytes of any length as the blocks of one blob, a block at a time in memory.

The ids of blocks are of this attempt alone: a speculative attempt, a repeated one or one of a driver that
is gone stages blocks for the very same blob, and the driver commits the blocks of one of them. Used by the
thread that runs the task.
"""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING

from ehkafka.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer

BLOCKS_MAX = 50_000  # of the service


class StagedBlob(io.RawIOBase):
    """A file to write to; `stage(block_id, content)` is called for each full block. `finish` ends it."""

    def __init__(self, stage: Callable[[str, bytes], object], block_bytes: int) -> None:
        self._stage = stage
        self._block_bytes = block_bytes
        self._attempt = uuid.uuid4().hex
        self._pending = bytearray()
        self._position = 0
        self.blocks: list[str] = []

    def writable(self) -> bool:
        """Tell pyarrow and gzip that this is a file for writing."""
        return True

    def write(self, content: ReadableBuffer, /) -> int:
        """Take bytes; stages what fills a block."""
        view = memoryview(content).cast("B")
        self._pending += view
        self._position += len(view)
        while len(self._pending) >= self._block_bytes:
            block = bytes(self._pending[: self._block_bytes])
            del self._pending[: self._block_bytes]
            self._stage_block(block)
        return len(view)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._position

    def finish(self) -> tuple[str, ...]:
        """Stage the rest and return the ids of all blocks, in order."""
        if self._pending:
            self._stage_block(bytes(self._pending))
            self._pending.clear()
        return tuple(self.blocks)

    def _stage_block(self, block: bytes) -> None:
        if len(self.blocks) == BLOCKS_MAX:
            raise ConfigurationError(
                f"One task's rows are more than {BLOCKS_MAX} blocks of {self._block_bytes} bytes, which is "
                "all that a blob can have: repartition the stream, or raise blockBytes"
            )
        # All ids of a blob have the same length: the service asks for that.
        identity = f"{self._attempt}-{len(self.blocks):05d}"
        self._stage(identity, block)
        self.blocks.append(identity)
