"""Steering: actions on keys, partitions and handlers while a run goes on.

`action` is what is asked, answered and refused, in plain values that cross a process or a network. `steering`
has it done on the poll thread: by `key_actions` to the key that `names` find, or by `pausing`. `keys` shows
which keys wait, and which of them hold a commit.
"""
