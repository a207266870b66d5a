"""The dashboard: pages over the same calls as the public API, loaded with their first request."""
