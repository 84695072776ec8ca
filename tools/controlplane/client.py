"""A small synchronous client of the API server, for tests, the demo's set-up and this tool.

It uses the standard library only, so that proxy settings of the machine have no effect. Each
request has its own connection, so any thread may use a client, and a server may restart. Use
``kept`` for hundreds of requests. The product has its own client and must not import this one.
"""

from __future__ import annotations

import contextlib
import copy
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from tools.controlplane.errors import ControlPlaneError
from tools.controlplane.identity import Identity

MERGE_PATCH = "application/merge-patch+json"
DEFAULT_TIMEOUT_S = 30.0
#: The default timeout of a wait; it allows for machines several times slower than ours.
PATIENCE_S = 120.0
#: The polling interval grows, so that polling does not slow down long operations.
POLL_FIRST_S, POLL_LAST_S, POLL_GROWTH = 0.02, 0.3, 1.3


class ApiError(ControlPlaneError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, status: int, answer: dict[str, Any]) -> None:
        self.status = status
        self.reason = str(answer.get("reason", ""))
        self.answer = answer
        message = answer.get("message") or answer
        super().__init__(f"{method} {path}: {status} {self.reason}: {message}")


class Client:
    """Talks to the API server as one identity."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._context = ssl.create_default_context(cafile=str(identity.authority))
        if identity.certificate is not None:
            self._context.load_cert_chain(*identity.certificate)
        self._kept: http.client.HTTPSConnection | None = None

    @contextlib.contextmanager
    def kept(self) -> Iterator[Client]:
        """A client for one thread whose requests share a connection until the end."""
        client = copy.copy(self)
        client._kept = self._connect(DEFAULT_TIMEOUT_S)
        try:
            yield client
        finally:
            client._kept.close()

    def _connect(self, timeout_s: float) -> http.client.HTTPSConnection:
        address = urlsplit(self.identity.server)
        return http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._context, timeout=timeout_s
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Any:
        """Send one request; return the decoded JSON, or the text of another content type."""
        status, text = self._exchange(method, path, body, content_type, timeout_s)
        answer = _decode(text)
        if status >= http.HTTPStatus.BAD_REQUEST:
            known = answer if isinstance(answer, dict) else {"message": str(answer).strip()}
            raise ApiError(method, path, status, known)
        return answer

    def _exchange(
        self, method: str, path: str, body: Any, content_type: str, timeout_s: float
    ) -> tuple[int, str]:
        headers = {"Accept": "application/json", "User-Agent": "gpu-scheduler-controlplane"}
        if self.identity.token is not None:
            headers["Authorization"] = f"Bearer {self.identity.token}"
        if body is not None:
            headers["Content-Type"] = content_type
        connection = self._kept or self._connect(timeout_s)
        is_reusable = False
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, headers)
            response = connection.getresponse()
            text = response.read().decode()
            is_reusable = connection is self._kept
            return response.status, text
        except (OSError, http.client.HTTPException) as error:
            raise ControlPlaneError(f"{method} {self.identity.server}{path}: {error}") from error
        finally:
            if not is_reusable:
                connection.close()

    def get(self, path: str) -> Any:
        """Read an object or a list."""
        return self.request("GET", path)

    def create(self, path: str, body: Any) -> Any:
        """Create an object in a collection, or post to a subresource."""
        return self.request("POST", path, body)

    def replace(self, path: str, body: Any) -> Any:
        """Replace an object."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, *, content_type: str = MERGE_PATCH) -> Any:
        """Change an object by a patch; a merge patch unless said otherwise."""
        return self.request("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, body: Any = None) -> Any:
        """Delete an object, or a whole collection."""
        return self.request("DELETE", path, body)

    def delete_if_there(self, path: str) -> None:
        """Delete an object if it exists."""
        try:
            self.delete(path)
        except ApiError as error:
            if error.status != http.HTTPStatus.NOT_FOUND:
                raise

    def wait_for(
        self,
        path: str,
        is_as_wanted: Callable[[Any], bool],
        *,
        what: str,
        timeout_s: float = PATIENCE_S,
    ) -> Any:
        """Read a path until the check succeeds on its content; a missing object is None."""
        seen: list[Any] = [None]

        def check() -> bool:
            try:
                seen[0] = self.get(path)
            except ApiError as error:
                if error.status != http.HTTPStatus.NOT_FOUND:
                    raise
                seen[0] = None
            return is_as_wanted(seen[0])

        wait_until(check, what=what, timeout_s=timeout_s, last=lambda: _status_first(seen[0]))
        return seen[0]


def wait_until(
    check: Callable[[], bool],
    *,
    what: str,
    timeout_s: float = PATIENCE_S,
    last: Callable[[], object] | None = None,
) -> None:
    """Poll until the check succeeds; the error at the deadline contains ``what``."""
    deadline = time.monotonic() + timeout_s
    pause_s = POLL_FIRST_S
    while not check():
        if time.monotonic() > deadline:
            seen = "" if last is None else f"; last seen: {json.dumps(last())[:2000]}"
            raise ControlPlaneError(f"waited {timeout_s:g} s for {what}{seen}")
        time.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWTH, POLL_LAST_S)


def _status_first(item: Any) -> Any:
    """An object with its status at the begin, where a long text is not cut."""
    is_object = isinstance(item, dict) and "status" in item
    return {"status": item["status"], **item} if is_object else item


def _decode(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text
