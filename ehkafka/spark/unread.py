"""Names the columns of the source that a query does not use, where they make reading a third longer.

Spark tells no Python source which columns a query needs; the plan on the driver shows it. A client of Spark
Connect has no plan, and what a function of `foreachBatch` uses is in none: nothing is logged there.
"""

from __future__ import annotations

import logging
import re
from typing import Any

_LOG = logging.getLogger("ehkafka.spark")
FORMAT = "ehkafka"
# CPU time of a column, compared with a record without any, in Python and Java, for values of 200 bytes.
_SHARES, _SHARE_OF_OTHERS = {"key": 0.1, "value": 0.15, "timestamp": 0.1, "headers": 0.5}, 0.05


def log_unread_columns(writer: Any) -> None:
    """Log them, and the option that leaves them out. Raises nothing."""
    try:
        for is_read in columns_read(writer._df):  # noqa: SLF001 - there is no public way to a writer's frame
            unread = [name for name in is_read if not is_read[name]]
            used = [name for name in is_read if is_read[name]]
            if _time(unread) > (1 + _time(used)) / 3:
                _LOG.info(
                    "Reading takes a third longer than it has to, or more: the query does not use the columns"
                    ' %s. Leave them out by .option("columns", "%s")%s.',
                    *(", ".join(unread), ",".join(used) or "offset"),
                    " and without includeHeaders" if "headers" in unread else "",
                )
    except Exception as error:  # a hint ends no start
        _LOG.debug("Which columns the query uses is unknown: %s", error)


def columns_read(frame: Any) -> list[dict[str, bool]]:
    """Return for each source in a frame's optimised plan which of its columns are used."""
    state = frame.sparkSession._jsparkSession.sessionState()  # noqa: SLF001 - Java's
    nodes = _nodes(state.optimizer().execute(frame._jdf.queryExecution().analyzed()))  # noqa: SLF001
    used = {number for node in nodes for _, number in _columns(node.references())}
    used |= {number for _, number in _columns(nodes[0].output())}
    sources = [node for node in nodes if node.getClass().getSimpleName() == "StreamingRelationV2"]
    # One that is in the plan twice has the same options.
    ours = {tuple(_columns(node.output())) for node in sources if node.sourceName() == FORMAT}
    return [{name: number in used for name, number in columns} for columns in sorted(ours)]


def _time(names: list[str]) -> float:
    return sum(_SHARES.get(name, _SHARE_OF_OTHERS) for name in names)


def _nodes(plan: Any) -> list[Any]:
    children = plan.children()
    return [plan, *(node for at in range(children.size()) for node in _nodes(children.apply(at)))]


def _columns(attributes: Any) -> list[tuple[str, str]]:
    return re.findall(r"(\w+)#(\d+)", attributes.mkString(","))
