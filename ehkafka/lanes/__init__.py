"""Lanes: strict order per key, everything else side by side. A key's lane is what is unfinished of it.

The pure core of the engine: a state machine without threads, clock or I/O. `inboxes` is its face (see there
for who may call what) and `inbox` one consumer's queue, with the protocol on which the order of keys rests.
`routing` finds the inbox of each record, by its key; `order` tells which records have one key, `user_keys`
what replaces keys of users' own types. `balance` moves what waits behind slow records, `width` decides how
many consumers take new keys, `unread` lets quick records wait with their keys unread. `held` is a key that
waits, `waiting` what becomes of it by a `decision` about a call of the handler, `slow_start` keys whose next
record may fail as the last one did, `put_back` what has started and waits again, `piles` what nothing may
start, `resizing` consumers that come and go. `epoch` is one assignment with its commit position, `tally` its
counts, `ending` its drain and end, `outliving` the calls that outlive it; `finished` and `received_batches`
are what it knows of its records. `received` is what a handler may change in a message, `seen` what the
inboxes have at one moment.

The simulator drives it single-threaded, the app from the poll thread and the workers with one lock.
"""
