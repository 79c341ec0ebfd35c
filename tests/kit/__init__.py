"""What only this project's tests use: the simulator, members as programs, a terminal, a Spark cluster.

`waiting` has the one waiter of all tests and `events` the one recorder of events; `pages` reads the blocks of
the documents. `schedule` says which process of a parallel run gets which tests, `broker_classes` has its
brokers start sooner.
"""
