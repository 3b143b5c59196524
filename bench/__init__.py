"""Benchmarks: what the parts and the whole cost on this host, beside bare loops of other tools (PERF section 3)."""
