"""The rules for finding refused outputs: a broker refuses a whole batch, and reports all of it. Pure.

The outputs of a refused batch are sent again in transactions that are aborted in any case, by clients with
smaller and smaller batches, until a batch has one output. After a refusal the broker takes nothing more from
that client, so each try finds one refused output, or a few neighbours. If all are accepted in smaller
batches, the batch itself was too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ehkafka.outputs.output import Output, OutputRefusedError

# The most batches of a try: five of them take a round trip to the broker.
BATCHES_MAX: Final = 200


def batch_outputs(count: int) -> int:
    """Return the number of outputs in a batch, if so many outputs are tried."""
    return -(-count // BATCHES_MAX)


def with_alike(
    outputs: Sequence[Output], refused: Mapping[int, OutputRefusedError]
) -> dict[int, OutputRefusedError]:
    """Add the outputs that must be too large as well, which saves a try for each. By place in `outputs`.

    Not for compressed batches: there a larger output may be a smaller message.
    """
    found = dict(refused)
    # By topic: the least size that was refused.
    least: dict[str, tuple[int, OutputRefusedError]] = {}
    for place, error in refused.items():
        output = outputs[place]
        known = least.get(output.topic)
        # With headers `size` is approximate.
        if error.is_too_large and not output.headers and (known is None or output.size < known[0]):
            least[output.topic] = output.size, error
    for place, output in enumerate(outputs if least else ()):
        known = least.get(output.topic)
        if known is not None and output.size >= known[0]:
            found.setdefault(place, known[1])
    return found
