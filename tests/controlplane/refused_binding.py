"""An admission policy of the cluster's owner that refuses the Bindings of some pods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.controlplane.workloads import Watcher
from tools.controlplane import ApiError, wait_until

MESSAGE: Final = "this pod may not run"
POLICY: Final = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: refuse-binding-of-{first}}}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods/binding]}}
  validations:
    - {{expression: "!(object.metadata.name in {pods})", message: "{message}"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: refuse-binding-of-{first}}}
spec: {{policyName: refuse-binding-of-{first}, validationActions: [Deny]}}
"""


@contextmanager
def refused_bindings(here: Watcher, pods: Sequence[str], node: str) -> Iterator[None]:
    """The policy is in force inside of the block; the pods need not exist yet."""
    policy = POLICY.format(first=pods[0], pods=list(pods), message=MESSAGE)
    try:
        here.plane.kubectl("apply", "-f", "-", input=policy)
        wait_until(lambda: _is_denied(here, pods[0], node), what="the policy to be in force")
        yield
    finally:
        here.plane.kubectl("delete", "--ignore-not-found", "-f", "-", input=policy)


def refused_binding(here: Watcher, pod: str, node: str) -> AbstractContextManager[None]:
    """The same for one pod."""
    return refused_bindings(here, [pod], node)


def _is_denied(here: Watcher, pod: str, node: str) -> bool:
    """API servers learn of a policy through a watch; it is asked before the pod is looked up."""
    binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    try:
        here.client.create(here.path("Pod", pod) + "/binding", binding)
    except ApiError as error:
        return MESSAGE in str(error)
    return False
