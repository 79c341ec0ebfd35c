"""How refused outputs are found: the broker refuses whole batches, and names all that was in one. Pure.

What was named is tried apart, in transactions that are aborted whatever becomes of them, by clients whose
batches are smaller and smaller, until each has one output. A broker that has refused something takes no more
from that client, so a try finds one refused output, or a few that stand next to each other. Where all pass in
smaller batches, the batch itself was too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.outputs.output import Output, OutputRefusedError

# So many batches a try has at most: a round trip to the broker for each five of them.
BATCHES_MAX: Final = 200


def batch_outputs(count: int) -> int:
    """Return how many outputs a batch has where so many are tried."""
    return -(-count // BATCHES_MAX)


def with_alike(
    outputs: Sequence[Output], refused: Mapping[int, OutputRefusedError]
) -> dict[int, OutputRefusedError]:
    """Add what is too large for a topic as well, so that it costs no try each. By place in `outputs`.

    Not where batches are compressed: there a larger output may be a smaller message.
    """
    found = dict(refused)
    # By topic: from how many bytes on.
    least: dict[str, tuple[int, OutputRefusedError]] = {}
    for place, error in refused.items():
        output = outputs[place]
        known = least.get(output.topic)
        # Headers count for the broker, and not in `size`.
        if error.is_too_large and not output.headers and (known is None or output.size < known[0]):
            least[output.topic] = output.size, error
    for place, output in enumerate(outputs if least else ()):
        known = least.get(output.topic)
        if known is not None and output.size >= known[0]:
            found.setdefault(place, known[1])
    return found
