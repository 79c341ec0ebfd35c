"""Recovery: what becomes of a record whose handler raised or deferred it.

`failures` decides, on the worker's thread, before the dispatcher takes the record over: no user code runs on
the poll thread or under the lock. It asks `retry` (when to try again) and `policy` (what a failure leads to
once no retry is left); `wiring` refuses at the start what policies must not lead to together. `pending` keeps
deferred records from the handler's return to their answer, `unrun` finds results that would never be run.
`letters/` are the dead letters, `refused_outputs` decides on what a broker refuses.
Decisions themselves are values of `lanes.decision`, which `lanes` carries out.
"""
