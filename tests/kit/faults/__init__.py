"""Proxies that make a network or a server bad.

`tcp_proxy` over `tcp_link` spoils connections as `network` says, `http_proxy` a server's answers;
`commit_throttle` treats commits as Event Hubs does.
"""
