"""Copies of a SQLite database: made while it is in use, checked, kept by number, and put back."""
