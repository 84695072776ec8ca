"""Access to the API server and to the scheduler's decisions API.

Requests to the API server use the identity of the kubeconfig. The decisions API listens inside the
leader's pod only. It is reached by its URL, or through ``kubectl port-forward`` if the user's
rights allow it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Final

import aiohttp
import msgspec

from gpuctl.input_error import NotReached
from scheduler.config import LeaderElection
from scheduler.model.lease import Lease
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.credentials.access import namespace_of
from scheduler.watch.credentials.authorization import Constant
from scheduler.watch.credentials.errors import NoCluster

USER_AGENT: Final = "gpuctl"
DECISIONS_PORT: Final = 8090
FORWARD_TIMEOUT_S: Final = 10.0
UNAVAILABLE: Final = 503
#: Requests to a decisions API that is busy.
ASKED_MAX: Final = 5
END_TIMEOUT_S: Final = 5.0
#: The line that kubectl prints when it listens (client-go, tools/portforward).
_FORWARDING: Final = re.compile(rb"Forwarding from (127\.0\.0\.1:\d+) -> \d+")
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """The selected cluster and scheduler; None means kubectl's default, and an empty name of the
    scheduler that of the installation (``our_scheduler``).
    """

    kubeconfig: str | None = None
    context: str | None = None
    lease_namespace: str = LeaderElection().resource_namespace
    lease_name: str = LeaderElection().resource_name
    scheduler: str = ""


@contextlib.asynccontextmanager
async def cluster(access: Access) -> AsyncIterator[Client]:
    """A client of the API server; NotReached if the kubeconfig is missing or invalid, or for an
    error of the API server.
    """
    try:
        client = await Client.connect(access.kubeconfig, USER_AGENT, access.context)
    except NoCluster as error:
        raise NotReached(str(error)) from error
    try:
        yield client
    except ApiError as error:
        raise NotReached(error.message or str(error)) from error
    except Unreachable as error:
        raise NotReached(str(error)) from error
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def server(url: str) -> AsyncIterator[Client]:
    """A client of the decisions API at this URL."""
    async with aiohttp.ClientSession() as session:
        yield Client(url, Constant(), session)


def default_namespace(access: Access) -> str:
    """The namespace that kubectl would use."""
    return namespace_of(access.kubeconfig, access.context) or "default"


async def ask(
    client: Client,
    path: str,
    params: Mapping[str, str],
    timeout_s: float,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bytes:
    """One request to a decisions API; NotReached contains the server's message or the error."""
    try:
        return await patient(client, path, params, timeout_s, pause)
    except Unreachable as error:
        raise NotReached(f"the decisions API does not answer: {error}") from error
    except ApiError as error:
        text = error.message or f"the decisions API returned {error.status}"
        raise NotReached(text) from error


async def patient(
    client: Client,
    path: str,
    params: Mapping[str, str],
    timeout_s: float,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> bytes:
    """The answer to a GET; a server that is busy names the time after which it is asked again."""
    for left in reversed(range(ASKED_MAX)):
        try:
            return await client.request("GET", path, params=params, timeout_s=timeout_s)
        except ApiError as error:
            if not left or error.status != UNAVAILABLE or not error.retry_after_s:
                raise
            await pause(error.retry_after_s)
    raise AssertionError("the last request returns or raises")


class LeaderIsNoPod(NotReached):
    """The leader runs outside of the cluster, so nothing forwards to it."""


# --- through the leader's pod -----------------------------------------------------------------


async def leader_pod(client: Client, access: Access) -> str | None:
    """The leader's pod by the Lease, or None if it has no holder or cannot be read."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{access.lease_namespace}/leases"
    try:
        content = await client.request("GET", f"{path}/{access.lease_name}")
        holder = msgspec.json.decode(content, type=Lease).spec.holder_identity or ""
    except (ApiError, Unreachable, msgspec.MsgspecError):
        return None
    return holder.rpartition("_")[0] or None


async def reachable_leader(client: Client, access: Access, command: str) -> str:
    """The leader's pod, to which the user may forward; NotReached names what is missing, and how
    an administrator runs the ``command``.
    """
    leader = await leader_pod(client, access)
    if leader is None:
        raise NotReached(
            f"the Lease {access.lease_namespace}/{access.lease_name} names no leader, or you"
            f" may not read it; {_for_an_admin(access, None, command)}"
        )
    if not await may_forward(client, access):
        raise NotReached(
            f"you may not forward to pod {leader} (verb create, pods/portforward, namespace"
            f" {access.lease_namespace}); {_for_an_admin(access, leader, command)}"
        )
    return leader


def _for_an_admin(access: Access, leader: str | None, command: str) -> str:
    forward, again = by_hand(access, leader, command)
    return f"an admin can run: {forward}   and in another terminal   {again}"


async def may_forward(client: Client, access: Access) -> bool:
    """Whether the user may run kubectl port-forward to the scheduler's pods."""
    attributes = {
        "namespace": access.lease_namespace,
        "verb": "create",
        "resource": "pods",
        "subresource": "portforward",
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        answer = await client.request("POST", _REVIEWS, msgspec.json.encode(body))
        return bool(msgspec.json.decode(answer)["status"]["allowed"])
    except (ApiError, Unreachable, msgspec.MsgspecError, KeyError):
        return False


def forward_command(access: Access, pod: str | None, local: str = str(DECISIONS_PORT)) -> list[str]:
    """``kubectl port-forward`` to this pod, or to a pod of the Deployment."""
    words = ["kubectl"]
    if access.kubeconfig:
        words += ["--kubeconfig", access.kubeconfig]
    if access.context:
        words += ["--context", access.context]
    target = f"pod/{pod}" if pod else f"deployment/{access.lease_name}"
    ports = f"{local}:{DECISIONS_PORT}"
    return [*words, "--namespace", access.lease_namespace, "port-forward", target, ports]


def by_hand(access: Access, pod: str | None, command: str) -> tuple[str, str]:
    """An admin's two commands for a manual port-forward; the first needs its own terminal.

    The kubeconfig is left out: it has the identity of a user without the right to forward.
    """
    theirs = msgspec.structs.replace(access, kubeconfig=None)
    forward = shlex.join(forward_command(theirs, pod))
    return forward, f"{command} --server http://127.0.0.1:{DECISIONS_PORT}"


@contextlib.asynccontextmanager
async def leader_url(
    access: Access, client: Client, server: str | None, *, forward: bool = True
) -> AsyncIterator[str | None]:
    """The URL of the decisions API: ``server``, or forwarded where the rights allow it, or None."""
    leader = await leader_pod(client, access) if server is None and forward else None
    async with url_of(access, client, server, leader) as url:
        yield url


@contextlib.asynccontextmanager
async def url_of(
    access: Access, client: Client, server: str | None, leader: str | None
) -> AsyncIterator[str | None]:
    """The same for a known leader; None: nothing is forwarded."""
    if server is not None:
        yield server
    elif leader is not None and await may_forward(client, access):
        async with forwarded(access, leader) as url:
            yield url
    else:
        yield None


@contextlib.asynccontextmanager
async def forwarded(
    access: Access, pod: str, timeout_s: float = FORWARD_TIMEOUT_S
) -> AsyncIterator[str]:
    """The URL of a pod's decisions API during a port-forward; NotReached if that fails."""
    async with forwarding_process(access, pod, "", timeout_s) as (url, _):
        yield url


@contextlib.asynccontextmanager
async def forwarding_process(
    access: Access, pod: str, port: str, timeout_s: float = FORWARD_TIMEOUT_S
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The same from a local port (empty: any), with the process, whose output is to be read."""
    words = forward_command(access, pod, local=port)
    if shutil.which(words[0]) is None:
        raise NotReached("kubectl is not installed, so port-forward is not available")
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield f"http://{await _address(process, access, pod, timeout_s)}", process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(END_TIMEOUT_S):
                await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(
    process: asyncio.subprocess.Process, access: Access, pod: str, timeout_s: float
) -> str:
    assert process.stdout is not None, "its output is a pipe"
    assert process.stderr is not None, "its errors are a pipe"
    try:
        async with asyncio.timeout(timeout_s):
            while line := await process.stdout.readline():
                if found := _FORWARDING.match(line):
                    return found[1].decode()
            problem = (await process.stderr.read()).decode(errors="replace").strip()
    except TimeoutError:
        problem = f"no answer within {timeout_s:g} s"
    if f'(NotFound): pods "{pod}"' in problem:
        raise LeaderIsNoPod(
            f"the leader {pod} is not a pod of namespace {access.lease_namespace}; pass the URL of"
            " its decisions API with --server"
        )
    raise NotReached(f"kubectl port-forward: {problem.splitlines()[-1] if problem else 'it ended'}")
