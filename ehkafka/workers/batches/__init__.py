"""Batches as work: which records go together, and the workers that run them."""
