"""`ehkafka keys`: which keys hold a commit, and a hand on each, by the HTTP side of running apps.

`commands` has options and help, `keys` asks all apps that were named and writes what came of it.
"""
