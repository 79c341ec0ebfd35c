"""The typed catalogue of what an app reports about itself.

One frozen dataclass per kind of event, grouped by what it is about; each is rare compared with records (per
assignment, commit, pause or failure, never per record). The engine emits them, the telemetry thread counts
and logs them and hands them to hooks. Pure values: importing this room starts nothing.

`event` is what all have in common, with hooks and counters; the groups are `app`, `commit`, `connection`,
`consumer`, `credential`, `dead_letter`, `handler`, `members`, `mirror`, `output`, `partition`, `rebalance`,
`record` and `steering`. `history` is the protocol of the checker's record of a run.

Fields are named as in `docs/concepts/vocabulary.md`; units come last. A new kind is a class in the file of
its group, with its level and its `sentence`: that makes it a name of this room.
"""

from __future__ import annotations

from ehkafka.events.app import *
from ehkafka.events.commit import *
from ehkafka.events.connection import *
from ehkafka.events.consumer import *
from ehkafka.events.credential import *
from ehkafka.events.dead_letter import *
from ehkafka.events.event import CounterName as CounterName
from ehkafka.events.event import Event as Event
from ehkafka.events.event import Hook as Hook
from ehkafka.events.handler import *
from ehkafka.events.members import *
from ehkafka.events.mirror import *
from ehkafka.events.output import *
from ehkafka.events.partition import *
from ehkafka.events.rebalance import *
from ehkafka.events.record import *
from ehkafka.events.steering import *
