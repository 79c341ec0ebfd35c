"""What only this project's tests, scripts and examples use: the simulator, members as programs, servers.

`waiting` has the one waiter of all tests and `events` the one recorder of events; `pages` reads the blocks of
the documents. `azurite` is a real Blob Storage (`azurite_install` fetches it), `identity_endpoint` gives
managed-identity tokens, `faults/` spoils networks and `clock` moves only when asked to. `checker/` judges the
history of a run; `stage` has a test's topic, group and members, each a process of `processes` with `member`.
`schedule` says which process of a parallel run gets which tests, `broker_classes` has brokers start sooner.
"""
