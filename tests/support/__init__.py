"""What the tests share: golden vectors, an independent reference, strict reverts, the workflow driver, conformance."""
