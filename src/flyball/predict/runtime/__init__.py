"""Predicted run times: quantiles from what a job asks for and from earlier jobs."""
