"""Checkpoints outside of the broker: a mirror of the group's commits, and the owners of its partitions.

The group's commit decides where a partition begins; what is kept here is read by others (KEDA, the SDKs of
.NET, `ehkafka owners`), and used by us only where the group has no commit, for the same log. What is written
was acknowledged by the broker before. Nothing in this room runs on the poll thread, but for the look at an
assignment whose group has no commit.

`checkpoint` are the values, `layout` the blobs' names. `store_mirror` and `blob_mirror` are what an app is
given, `mirror/` the thread that writes, `stores/` where it writes, `formats/` what other clients'
checkpoints say.
"""

from __future__ import annotations

from ehkafka.checkpoints.store_mirror import StoreMirror as StoreMirror
from ehkafka.checkpoints.stores import *
