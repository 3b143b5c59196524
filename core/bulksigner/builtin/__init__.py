"""Providers the core ships, registered like those of any other plugin."""
