"""The steps of a job, who runs them and where signing happens."""
