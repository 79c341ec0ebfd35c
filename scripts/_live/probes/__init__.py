"""The probes: a file for each concept; `plan.PROBES` has the order in which they run.

`login`: keys, tokens and a refusal. `versions`: requests that are offered. `topics`: partitions. `records`:
whether they come through whole, in order and with their stamps. `sizes`: the largest record, gzip. `commits`:
their pace and their metadata. `groups`: names, sessions, the new protocol. `compaction`, `transactions`.
`backup`: the mirror in Blob Storage. `amqp`: headers of AMQP producers. `rotation`: the second key. `idle`:
connections that are closed. `throttling`: more than the namespace takes.
"""
