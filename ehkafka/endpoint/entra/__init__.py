"""Microsoft Entra ID: credentials and the tokens that clients show.

`entra` is what `Endpoint.entra` is made of: a `namespace`, a `credential`. `token_source` keeps one `token`
for all clients; `token_problem` explains why none comes.
"""
