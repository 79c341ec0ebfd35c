"""Lanes: strict order per key, everything else side by side.

The pure core of the engine: a state machine without threads, clock or I/O. `dispatcher` is its face (see
there for who may call what), `lane` one key's queue, `assignment` one epoch with its watermark; `order` says
which records belong to one lane, `user_keys` what replaces keys of users' own types. `cuts` ends
assignments, `holds` keeps lanes that wait, `decisions` carries a `decision` out. `chunk` and `express` run
quick handlers without lanes, `express_mode` says when; `streams` are chunks side by side, `slices` are for
batches, `late` makes lanes as records are taken. `finished` and `marks` are what an assignment knows of its
records; `received` what a handler may change in a message, `running` whether a record is with its handler.

Being built, to replace all of the above but `order`, `user_keys`, `decision`, `finished`, `marks` and
`received`: one way for a record to wait and run. `inboxes` is its face, `inbox` one consumer's queue,
`routing` finds the inbox of a record, `held` is a key that waits, `waiting` what becomes of it, `epoch`
one assignment and its commit position, `tally` its counts, `ending` its drain and end, `balance` moves what
waits behind slow records. No app uses it yet.

The simulator drives it single-threaded, the app from the poll thread and the workers with one lock.
"""
