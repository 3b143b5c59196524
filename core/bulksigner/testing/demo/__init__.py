"""The demonstration: a real service on throw-away certificates signs real files, other tools check them (DEP-62)."""
