"""What the dashboard costs: first paint, viewers, many bars, memory over a long time."""
