"""Looks at a broker from outside: `run_checks` probes the way to it, `TopicReader` reads a topic.

Neither joins a group or moves a position that anybody uses. All that is ever written is the commit of
`commit.py`, to a group of our own name, and a blob of our own beside the mirror (`mirror.py`).

`plan` (pure) says which steps there are and what each needs; `run` goes through them, each on a thread of
its own and never longer than its time-out; every other module named after a step is that step's probe. What
a probe found is a `CheckResult` (`result`), out of which `cleaning` has struck secrets and control
characters. The probes: `dns`, `tcp`, `tls`, `clock`, `kafka` (by `hello`), `auth` (over `oauth_token`),
`topic`, `partitions`, `group`, `offsets`, `commit`, `mirror`, `settings`; `target` is what they look at,
`way_in` and `dial` the way there, `inspection` what the probes of one run share, `finding` how each says
what it found, `bounded` a time-out for what has none. `topic_reader` reads for `tail`. Called by the command
line, on the main thread. A further probe is a module here, an entry of `run.PROBES` and a step of `plan`.
"""

from __future__ import annotations

from ehkafka.checks.cleaning import one_line, printable
from ehkafka.checks.result import CheckResult, Report, Status
from ehkafka.checks.run import run_checks
from ehkafka.checks.target import Target
from ehkafka.checks.topic_reader import LastRecords, TopicReader

__all__ = [
    "CheckResult",
    "LastRecords",
    "Report",
    "Status",
    "Target",
    "TopicReader",
    "one_line",
    "printable",
    "run_checks",
]
