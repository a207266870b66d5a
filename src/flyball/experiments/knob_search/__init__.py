"""The search for the setting of the knobs that does best over many scenarios."""
