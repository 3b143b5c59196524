"""What an operator may do to jobs and to the pipeline, for every surface alike (API-06)."""
