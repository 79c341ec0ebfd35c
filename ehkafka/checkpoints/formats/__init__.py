"""Checkpoints of other clients, read safely whatever bytes they hold.

`formats` reads the position in a blob, `json` without trust; `choose` picks those that are meant, `folder`
takes them from plain files, `write` writes them for others.
"""
