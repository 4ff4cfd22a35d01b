"""What every app stands on: typed settings readers, security headers, health and the embedded services. No domain models."""
