"""Files and environment in, one immutable and typed object out."""
