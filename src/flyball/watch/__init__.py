"""Advises on somebody else's queue: mirrors it, forecasts its starts, explains; changes nothing."""
