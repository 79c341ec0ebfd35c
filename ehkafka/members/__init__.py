"""Members: an app as several processes of one group, and the supervisor that looks after them.

`opening` is what comes before the first member: `reference` says where members find the app, `count` and
`cores` how many there are to be, `boot` and `logs` what each is sent. `supervisor` is the loop, over one
`member` each with its `process` and the `channel` to it; `restarts` (pure) decides what follows an end, who
is replaced when, and which of them hang. `commands` are signals, `output` is what members print. `asking`
asks members as a client of an app's HTTP does, for a person who looks or acts; `summary` joins what
they show.

`child` is the other side, in the member's process: `serving` answers there what `http.answers` has, `orders`
carries a stop out. It is loaded there alone, and everything else not before a run has members.
"""
