"""Settings of the commands: from options, variables and a file, each with its origin.

`file` reads TOML, `variables` the environment and flags, each into a `layer` of values that `text` reads,
with those of `handlers`, which are for the app that is found later;
`model` checks them, `given` lays them over one another. `unasked` is the list of what a file may say that no
option names.
"""
