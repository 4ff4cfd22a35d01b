"""Every write of this app: collecting records, placing references, making releases, exports and judges."""
