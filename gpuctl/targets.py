"""The pods that a command line names: NAME, TYPE/NAME of a pod or of its owner, NAMESPACE/NAME.

A Deployment's pods are found by their owner references and labels, so the right to read pods is
enough. TYPE is any word that kubectl accepts for the kinds below, or KIND.GROUP of another owner,
as ``kubectl get -o name`` prints it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod import Pod
from scheduler.watch import paged_list
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.decode.pods import POD, to_pod

FORBIDDEN, NOT_FOUND = 403, 404
PAGE: Final = 500
#: Pods that a command reads from the API server.
PODS_MAX: Final = 150_000
NAMES_MAX: Final = 3
#: Characters of a controller's message.
FAILURE_MAX: Final = 400
POD_KIND: Final = "pod"
DEPLOYMENT: Final = "deployment"
CRON_JOB: Final = "cronjob"
#: Kind in small letters -> other words for it.
KINDS: Final = {
    POD_KIND: ("pods", "po"),
    DEPLOYMENT: ("deployments", "deploy"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
    "daemonset": ("daemonsets", "ds"),
    "job": ("jobs",),
    CRON_JOB: ("cronjobs", "cj"),
    "replicationcontroller": ("replicationcontrollers", "rc"),
    "pytorchjob": ("pytorchjobs",),
    "mpijob": ("mpijobs",),
    "raycluster": ("rayclusters",),
}
_KIND_OF: Final = {word: kind for kind, words in KINDS.items() for word in (kind, *words)}


class _Involved(msgspec.Struct, frozen=True):
    name: str = ""


class _Event(msgspec.Struct, frozen=True):
    involved: _Involved = msgspec.field(name="involvedObject", default=_Involved())
    message: str = ""


class _Events(msgspec.Struct, frozen=True):
    items: tuple[_Event, ...] = ()


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """``-n``, ``-A`` and ``-l``; a namespace of None is the one that kubectl would use."""

    namespace: str | None = None
    all_namespaces: bool = False
    selector: str = ""

    async def space(self, access: Access) -> str | None:
        """The namespace, or None for all."""
        if self.all_namespaces:
            return None
        return self.namespace or cluster_access.default_namespace(access)


class Target(msgspec.Struct, frozen=True):
    """A pod, or the pods of an owner; ``namespace`` is empty if the text names none."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def has(self, pod: Pod) -> bool:
        """Whether this is the pod, or one of its controllers."""
        if self.kind == POD_KIND:
            return pod.name == self.name
        owner = pod.owner
        if owner is None:
            return False
        kind, _, group = self.kind.partition(".")
        if kind == DEPLOYMENT:
            template = pod.labels.get(well_known.POD_TEMPLATE_HASH, "")
            return owner.kind == "ReplicaSet" and owner.name == f"{self.name}-{template}"
        if kind == CRON_JOB:
            # The name of a CronJob's Job ends in the scheduled minute (cronjob_controllerv2.go).
            base, _, minute = owner.name.rpartition("-")
            return owner.kind == "Job" and base == self.name and minute.isdigit()
        return (
            owner.kind.lower() == kind
            and owner.name == self.name
            and (not group or owner.group in ("", group))
        )


def parse(text: str) -> Target:
    """The target of one word.

    >>> parse("deploy/web")
    Target(kind='deployment', name='web', namespace='')
    >>> parse("team/a")
    Target(kind='pod', name='a', namespace='team')
    >>> parse("rayclusters.ray.io/r").kind
    'raycluster.ray.io'
    """
    head, slash, name = text.rpartition("/")
    if not slash:
        return Target(POD_KIND, name)
    word, dot, group = head.lower().partition(".")
    kind = _KIND_OF.get(word, "")
    if kind == POD_KIND:
        return Target(kind, name)
    if kind:
        return Target(f"{kind}.{group}" if dot else kind, name)
    if dot:
        return Target(head.lower(), name)
    return Target(POD_KIND, name, head)


async def pods_of(client: Client, access: Access, scope: Scope, words: Sequence[str]) -> list[Pod]:
    """The pods that these words name, or all of the scope without a word.

    NotReached names the namespace in which a word has no pod.
    """
    space = await scope.space(access)
    found: dict[str, Pod] = {}
    try:
        if not words:
            return await read_pods(client, space, scope.selector)
        for target in map(parse, words):
            found |= {pod.key: pod for pod in await _pods_of(client, target, space, scope)}
    except ApiError as error:
        raise not_listed(error) from error
    return list(found.values())


async def _pods_of(client: Client, target: Target, space: str | None, scope: Scope) -> list[Pod]:
    if target.namespace and scope.namespace not in (None, target.namespace):
        name = f"{target.namespace}/{target.name}"
        raise NotReached(f"{name} and --namespace {scope.namespace} are different namespaces")
    space = target.namespace or space
    if target.kind == POD_KIND and space is not None and not scope.selector:
        return [await read_pod(client, space, target.name)]
    pods = await read_pods(client, space, scope.selector)
    if found := [pod for pod in pods if target.has(pod)]:
        return found
    raise NotReached(_missing(target, space, [pod.name for pod in pods]))


async def read_pod(client: Client, namespace: str, name: str) -> Pod:
    """One pod with all of its annotations; NotReached names the namespace, and a similar pod where
    the rights allow it.
    """
    try:
        content = await client.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}")
        wire = POD.decode(content)
        pod = to_pod(wire)
        every = {**(wire.metadata.annotations or {}), **pod.annotations}
        return msgspec.structs.replace(pod, annotations=every)
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise NotReached(error.message or str(error)) from error
    except (Unreachable, *UNREADABLE) as error:
        raise NotReached(f"the API server: {error}") from error
    target = Target(POD_KIND, name)
    try:
        elsewhere = await _namespaces_with(client, name)
        if elsewhere:
            raise NotReached(f"{_missing(target, namespace, ())}; it is in {_either(elsewhere)}")
        pods = await read_pods(client, namespace)
    except (ApiError, Unreachable):
        pods = []
    raise NotReached(_missing(target, namespace, [pod.name for pod in pods]))


async def _namespaces_with(client: Client, name: str) -> list[str]:
    """The namespaces that have a pod of this name; none without the right to list them all."""
    try:
        return [pod.namespace for pod in await _list(client, None, {"fieldSelector": _named(name)})]
    except ApiError:
        return []


def _named(name: str) -> str:
    return f"metadata.name={name}"


async def selected_pods(access: Access, scope: Scope) -> set[str]:
    """The pods that ``-l`` selects, as NAMESPACE/NAME; NotReached without the right to list."""
    async with cluster_access.cluster(access) as client:
        try:
            pods = await read_pods(client, scope.namespace, scope.selector)
        except ApiError as error:
            raise NotReached(f"-l needs the right to list pods: {error.message}") from error
    return {pod.key for pod in pods}


async def read_pods(client: Client, namespace: str | None, selector: str = "") -> list[Pod]:
    """The pods of a namespace, or of all; ApiError without the right to list them."""
    return await _list(client, namespace, {"labelSelector": selector} if selector else {})


def not_listed(error: ApiError) -> NotReached:
    """The error of a list of pods, with the option that helps a user of some namespaces."""
    text = error.message or str(error)
    if error.status == FORBIDDEN:
        text += "; pass -n with a namespace whose pods you may list"
    return NotReached(text)


async def _list(client: Client, namespace: str | None, params: dict[str, str]) -> list[Pod]:
    path = "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{namespace}/pods"
    pods: list[Pod] = []
    try:
        async for page in paged_list.pages(client, path, params, PAGE):
            pods += [to_pod(POD.decode(item)) for item in page.items or ()]
            if len(pods) > PODS_MAX:
                raise NotReached(f"more than {PODS_MAX:,} pods; pass -n or -l")
    except (paged_list.Unreadable, *UNREADABLE) as error:
        raise NotReached(f"the API server: {error}") from error
    return pods


async def failed_creations(
    client: Client, space: str | None, targets: Sequence[Target], error: NotReached
) -> NotReached:
    """The error, with why the controller of an owner without pods creates none (quota, webhook)."""
    names = tuple(target.name for target in targets if target.kind != POD_KIND)
    if space is None or not names:
        return error
    path = f"/api/v1/namespaces/{space}/events"
    params = {"fieldSelector": "reason=FailedCreate", "limit": str(PAGE)}
    try:
        content = await client.request("GET", path, params=params)
        events = msgspec.json.decode(content, type=_Events).items
    except (ApiError, Unreachable, msgspec.MsgspecError):
        return error
    found = [one.message for one in events if _creates(names, one.involved.name) and one.message]
    return NotReached(f"{error}: {shown(found[-1].strip(), FAILURE_MAX)}") if found else error


def _creates(names: Sequence[str], name: str) -> bool:
    """Whether it is an owner, or has the name of an owner's ReplicaSet or Job."""
    owner, _, suffix = name.rpartition("-")
    return name in names or (owner in names and suffix.isalnum())


def _missing(target: Target, space: str | None, names: Iterable[str]) -> str:
    where = f"in namespace {space}" if space is not None else "in any namespace"
    if target.kind != POD_KIND:
        return f"{target} has no pod {where}"
    text = f"{target} not found {where}"
    if near := difflib.get_close_matches(target.name, sorted(set(names)), NAMES_MAX, 0.6):
        text += f"; did you mean {_either(near)}?"
    return text


def _either(names: Sequence[str]) -> str:
    shown = list(names)[:NAMES_MAX]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
