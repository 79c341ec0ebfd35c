"""Settings of the commands: from options, variables and a file, each with its origin."""
