"""A Kafka cluster of three nodes on this machine, without Docker, and its faults.

`cluster` is what tests use and `node` one of its nodes. Each client, and each node as a client of the others,
has a listener of its own on every node, and `routes` a proxy before each of them. `settings` makes a cluster
small and its leaders quick to move. `requests` has what is asked of one chosen node, and `stepped_clock`
moves the clock of one.
"""
