"""Checkpoints of other clients, safe with whatever somebody has put there.

`formats` reads the position in a blob, `json` without trust; `choose` picks those that are meant, `folder`
takes them from plain files, `write` writes them for others.
"""
