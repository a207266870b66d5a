"""What users run over many replays: comparisons, fronts, searches, gains of tuning."""
