"""Bulk signing server: the names that plugin authors use."""
