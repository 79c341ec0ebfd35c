"""Proxies that make a network or a server bad."""
