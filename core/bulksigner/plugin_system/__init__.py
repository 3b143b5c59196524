"""Finds and isolates plugins and hands out what they provide; the only user of pluggy."""
