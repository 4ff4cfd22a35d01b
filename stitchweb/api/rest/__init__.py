"""The addresses below /api/v1, a file per subject. Thin: fetch through access, call a service, say it in a schema.

These modules do without postponed annotations: django-ninja reads what a view takes from its signature.
"""
