"""Checkpoints of other clients, read and written."""
