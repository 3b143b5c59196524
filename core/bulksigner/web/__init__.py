"""The HTTP face: one table of routes, one guard, one shape of errors."""
