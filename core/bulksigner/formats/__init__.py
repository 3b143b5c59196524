"""Signature formats: readers and writers in and out; no job, no folder."""
