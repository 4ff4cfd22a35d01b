"""What every app stands on: typed settings readers, security headers, forms taken once, health and the embedded services.

No models of the domain.
"""
