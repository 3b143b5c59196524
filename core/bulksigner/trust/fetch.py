"""Fetches small public things over HTTP: lists, answers and time stamps. Limits on size, time and redirections.

Proxies and further roots of TLS come from the usual variables (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`,
`SSL_CERT_FILE`), which httpx reads itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from bulksigner.contract.errors import TemporaryFailure
from bulksigner.contract.settings import Secret

__all__ = ["fetch"]

_REDIRECTIONS = 3
_AGENT = "bulksigner"


def fetch(
    url: str,
    *,
    limit_seconds: float,
    limit_bytes: int,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    credentials: tuple[str, Secret] | None = None,
) -> bytes:
    """Return what an address answers, with `body` to a POST; raises `TemporaryFailure` in words for an operator.

    `limit_seconds` counts for the whole of it, also for a server that sends a byte now and then.
    """
    import httpx  # here, since a service that fetches nothing need not pay for it at its start

    deadline = time.monotonic() + limit_seconds
    try:
        with (
            httpx.Client(
                timeout=limit_seconds,
                follow_redirects=body is None,
                max_redirects=_REDIRECTIONS,
                headers={"User-Agent": _AGENT, **(headers or {})},
                auth=None if credentials is None else (credentials[0], credentials[1].reveal()),
            ) as client,
            client.stream("GET" if body is None else "POST", url, content=body) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise TemporaryFailure(f"{url} answers HTTP {response.status_code}")
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > limit_bytes:
                    raise TemporaryFailure(f"{url} sends more than {limit_bytes} bytes")
                if time.monotonic() > deadline:
                    raise TemporaryFailure(f"{url} did not end within {limit_seconds:g} s")
            return bytes(content)
    except httpx.TimeoutException as error:
        raise TemporaryFailure(f"{url} did not answer within {limit_seconds:g} s") from error
    except (ImportError, ValueError) as error:
        # What httpx raises for a proxy of the environment that it cannot use.
        raise TemporaryFailure(f"{url} cannot be asked: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        raise TemporaryFailure(f"{url} cannot be reached ({type(error).__name__})") from error
