"""The page: what a resident sees of a home and an operator of all, from the table alone. Loopback only."""
