"""The oracle: the twin in plain, slow Python, to be read next to `docs/concept/twin.md`."""
