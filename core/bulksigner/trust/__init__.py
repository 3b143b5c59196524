"""Whose certificates are trusted, and whether one may be used now."""
