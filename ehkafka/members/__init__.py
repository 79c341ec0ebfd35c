"""Members: an app as several processes of one group, and the supervisor that looks after them.

`opening` is what comes before the first member: `reference` says where members find the app, `count` and
`cores` how many there are to be, `plan` what else was asked for, `boot` and `logs` what each is sent.
`supervisor` is the loop, over one `member` each with its `process` and the `channel` to it (`wire` is the
form of what goes through); `restarts` (pure) decides what follows an end, and who is replaced when,
`watching` (pure) which of them hang. `commands` are signals, `output` is what members print, `failure` the
error in the end. `questions` asks members for whoever wants to know, and keeps what they have noted:
`summary` is the sum of what they show, `steering` sends actions to the one they are for.

`child` is the other side, in the member's process: `serving` hears and answers, `orders` carries a stop out.
It is loaded there alone, and everything else not before a run has members.
"""
