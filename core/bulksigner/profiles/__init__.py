"""Signing profiles: stored, imported on the first boot, their secrets sealed, their keys opened and held."""
