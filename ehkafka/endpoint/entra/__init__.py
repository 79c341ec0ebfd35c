"""Microsoft Entra ID: credentials and the tokens that clients show."""
