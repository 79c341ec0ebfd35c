"""Steering: actions on keys, partitions and handlers while a run goes on.

`action` is what is asked and answered, in plain values that cross a process or a network. `steering` has it
done on the poll thread: `finding` the key that `names` mean, by `key_actions` or by `pausing`, for which
`pauses` remembers until when; `refusals` says what cannot be done. `keys` shows which keys wait, and which of
them hold a commit.
"""
