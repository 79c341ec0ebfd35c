"""librdkafka's properties: their names, limits, defaults, and what is refused.

`layers` puts them over one another; `names` and `known_names` know librdkafka's, `limits` the service's, each
with its source. Beyond what is permitted is refused (`setting_checks`); beyond what is recommended is one
event at the start (`advice`), and our own defaults give none. `ahead` says how much is fetched ahead.
"""
