"""The steps of the plans, one module each."""
