"""Posts admission reviews over HTTPS; one TLS context for every CA bundle. The only client inside the server."""

from __future__ import annotations

import ssl
from typing import Final
from urllib.parse import urlsplit

import aiohttp

from ome.local.apiserver.webhooks import SendError

HEADERS: Final = {"content-type": "application/json", "accept": "application/json, */*", "user-agent": "kube-apiserver"}
LARGEST_ANSWER: Final = 7 * 1024 * 1024


class HttpSender:
    """`await sender(url, bundle, body, timeout)` -> (status, body). Used in one running loop; close it at the end."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def __call__(self, url: str, bundle: bytes, body: bytes, timeout: float) -> tuple[int, bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            context = self._context(bundle)
            async with self._session.post(url, data=body, headers=HEADERS, ssl=context, timeout=limit) as answer:
                return answer.status, await answer.content.read(LARGEST_ANSWER)
        except aiohttp.ClientConnectorCertificateError as error:
            raise SendError(f"tls: failed to verify certificate: x509: {_certificate(error)}") from error
        except aiohttp.ClientConnectorSSLError as error:
            raise SendError(f"tls: {error}") from error
        except aiohttp.ClientConnectorDNSError as error:
            host = urlsplit(url).hostname
            raise SendError(f"dial tcp: lookup {host}: no such host") from error
        except aiohttp.ClientConnectorError as error:
            parts = urlsplit(url)
            place = f"{parts.hostname}:{parts.port or 443}"
            raise SendError(f"dial tcp {place}: connect: connection refused") from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError) as error:
            raise SendError("EOF") from error
        except TimeoutError:
            raise
        except (aiohttp.ClientError, ssl.SSLError, ValueError) as error:
            raise SendError(str(error)) from error

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            found = ssl.create_default_context(cadata=bundle.decode() if bundle else None)
            if len(self._contexts) > 64:
                self._contexts.clear()
            self._contexts[bundle] = found
        return found

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _certificate(error: aiohttp.ClientConnectorCertificateError) -> str:
    text = str(error.certificate_error)
    if "Hostname mismatch" in text or "IP address mismatch" in text:
        return "certificate is not valid for the name it was called by"
    if "expired" in text:
        return "certificate has expired or is not yet valid"
    return "certificate signed by unknown authority"
