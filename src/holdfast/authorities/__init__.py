"""Whoever else vouches for people: issuers of JSON Web Tokens, and LDAP directories."""
