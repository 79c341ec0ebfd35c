"""Compares ehkafka with other libraries: `scripts/bench --peers`.

| file | what it is for |
|---|---|
| `run` | the command line, and the order of everything |
| `catalogue` | which sides there are, read from `sides/*.toml` |
| `plan` | which works are measured, on which topic, for how long |
| `environments` | a virtual environment for each side |
| `pythons`, `java` | a newer Python for a side that needs one; a side on the JVM: its JARs, its compiler |
| `load`, `producer` | topics that are filled before, and records that are sent meanwhile |
| `process` | a side's process and its lines |
| `window` | the arithmetic of a steady window |
| `measure`, `rounds` | one measurement, and all of them in turn |
| `raw` | what was measured, as JSON |
| `figures` | medians, spreads and ratios of what was measured |
| `tables`, `pictures` | the page's tables, and its pictures |
| `behind`, `reasons` | where ehkafka is behind the others, and why |
| `page` | puts them into `docs/project/peers.md` |
| `sides/` | a program and a TOML file for each side |
"""
