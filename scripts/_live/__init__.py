"""`scripts/live`: the first run on a real Event Hubs namespace.

`options` has the command line, `command` asks before it starts, `given` finds the endpoint and its secrets,
`plan` lists the probes, what they cost and create. `run` goes through them: each is a `Probe` (`probe`) of
`probes/`, one file for each concept, works on the `Site`, waits as `waits` has it, and returns an `Observed`;
`committing` is for those that commit, `offered` lists the requests that the service knows. Whatever a probe
creates is in the `Ledger`, a file, before it is created; `cleaning` removes what the ledger names, also that
of a run that died. `progress` shows where the run is, `report` writes what was seen, `names` hides names in
it.

The engine's own parts do the work: `ehkafka check`'s steps, `App`, the endpoint's properties and the stores.
Clients of librdkafka are opened only where a limit is to be crossed that the engine keeps.
"""
