"""What forecasts are worth: paired runs with and without them."""
