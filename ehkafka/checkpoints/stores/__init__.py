"""Where checkpoints lie: `store` is the protocol, `memory`, `file` and `blob` keep it.

`container` reads which container of Blob Storage is meant, `blob_errors` explains what the service answers.
"""
