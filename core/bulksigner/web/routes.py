"""Every route of the service, in one table: method, path, who may call it, what answers, and with which codes."""

from __future__ import annotations

from bulksigner.web.job_routes import JOB_ROUTES
from bulksigner.web.person_routes import PERSON_ROUTES
from bulksigner.web.route import Route
from bulksigner.web.service_routes import SERVICE_ROUTES

__all__ = ["ROUTES", "Route"]

ROUTES = (*SERVICE_ROUTES, *JOB_ROUTES, *PERSON_ROUTES)
