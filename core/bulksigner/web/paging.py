"""Pages of lists (API-57, API-74)."""

from __future__ import annotations

from bulksigner.web.parameters import Number
from bulksigner.web.query import DEFAULT_PAGE_SIZE, MAX_PAGE, MAX_PAGE_SIZE

__all__ = ["PAGE", "PAGE_SIZE"]

PAGE = Number("page", "Which page, from 1; a lower number reads as 1.", default=1, highest=MAX_PAGE)
PAGE_SIZE = Number("pageSize", "Items on a page; a higher number reads as 200.", DEFAULT_PAGE_SIZE, cap=MAX_PAGE_SIZE)
