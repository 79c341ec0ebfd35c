"""Histories of runs, and the checker that judges them."""
