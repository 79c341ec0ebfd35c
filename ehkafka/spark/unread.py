"""Names the columns of the source that a query does not use, where they take more than a third of reading.

Spark tells no Python source which columns a query needs; the plan on the driver shows it. A client of Spark
Connect has no plan, and in none is what a function of `foreachBatch` uses: nothing is logged there.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG = logging.getLogger("ehkafka.spark")
FORMAT = "ehkafka"
# CPU microseconds of a record whose value has 200 bytes, in Python and Java: without a column, and of each.
_RECORD_US = 1.0
_COLUMNS_US = {"key": 0.1, "value": 0.1, "timestamp": 0.1, "timestampType": 0.1, "headers": 1.0}


def log_unread_columns(writer: Any) -> None:
    """Log which columns could be left out. Raises nothing."""
    try:
        for is_read in columns_read(writer._df):  # noqa: SLF001 - there is no public way to a writer's frame
            if share_unread(is_read) > 1 / 3:
                _LOG.info(
                    "The query does not use the columns %s, which take more than a third of the time of"
                    ' reading. Leave them out: .option("columns", "%s").',
                    ", ".join(name for name in is_read if not is_read[name]),
                    ",".join(name for name in is_read if is_read[name]) or "offset",
                )
    except Exception as error:  # a hint ends no start
        _LOG.debug("Which columns the query uses is unknown: %s", error)


def columns_read(frame: Any) -> list[dict[str, bool]]:
    """Return for each source in a frame's optimised plan which of its columns are used."""
    state = frame.sparkSession._jsparkSession.sessionState()  # noqa: SLF001 - Java's
    nodes = [*_nodes(state.optimizer().execute(frame._jdf.queryExecution().analyzed()))]  # noqa: SLF001
    used = {number for node in nodes for _, number in _columns(node.references())}
    used |= {number for _, number in _columns(nodes[0].output())}
    sources = [node for node in nodes if node.getClass().getSimpleName() == "StreamingRelationV2"]
    ours = [_columns(node.output()) for node in sources if node.sourceName() == FORMAT]
    return [{name: number in used for name, number in columns} for columns in ours]


def share_unread(is_read: Mapping[str, bool]) -> float:
    """Return the share of the time of reading that goes into columns that are not used."""
    all_us = _RECORD_US + sum(_COLUMNS_US.get(name, 0.0) for name in is_read)
    return sum(_COLUMNS_US.get(name, 0.0) for name in is_read if not is_read[name]) / all_us


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for number in range(plan.children().size()):
        yield from _nodes(plan.children().apply(number))


def _columns(attributes: Any) -> list[tuple[str, str]]:
    return re.findall(r"(\w+)#(\d+)", attributes.mkString(","))
