"""The mirror: writes into a store what the broker has acknowledged, and who owns what."""
