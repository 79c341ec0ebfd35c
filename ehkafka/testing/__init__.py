"""Testing kit."""
