"""Settings of the commands: from options, variables and a file, each with its origin.

`file` reads TOML, `variables` the environment and flags, each into a `layer`, which checks a value as it
takes it: `model` by its type, `text` what is written as text. `handlers` knows the options of handlers, which
are for the app that is found later; `given` lays the layers over one another.
"""
