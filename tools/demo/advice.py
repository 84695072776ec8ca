"""The last lines of the demo: what else one can do with it. Each line with two spaces is a command.

``tests/controlplane/test_demo.py`` runs them.
"""

from __future__ import annotations

import shlex
import shutil

from tools.demo.environment import EXAMPLES, EXAMPLES_NAMESPACE, Environment
from tools.demo.scenario import Scenario
from tools.demo.state_file import ending, gpuctl


def of_kept(environment: Environment, runner: Scenario) -> str:
    """The commands for a demo that keeps running."""
    program = "kubectl" if shutil.which("kubectl") else str(environment.plane.program("kubectl"))
    kubectl = shlex.quote(program)
    ask = [f"  {words} --server {environment.decisions_url}" for words in _questions(environment)]
    return "\n".join(
        [
            "it keeps running; use it like any cluster:",
            f"  export KUBECONFIG={shlex.quote(str(environment.plane.kubeconfig))}",
            f"  {kubectl} get pods -o wide",
            f"  {kubectl} get events",
            *_examples(kubectl, environment),
            "ask the scheduler (its decisions API has that port):",
            *ask,
            f"its metrics: {environment.health_url}/metrics",
            of_ended(runner),
            f"its logs are in {environment.directory}; stop it with:",
            f"  {ending(environment.directory)}",
        ]
    )


def of_ended(runner: Scenario) -> str:
    """The commands that need no cluster."""
    return f"the same files without a cluster:\n  {simulation(runner)}"


def simulation(runner: Scenario) -> str:
    """The command that simulates the files of the demo."""
    return shlex.join([gpuctl(), "simulate", *map(str, runner.files)])


def _questions(environment: Environment) -> list[str]:
    rows = environment.look().rows
    waiting = [row.pod for row in rows if row.node is None]
    pod = next(iter(waiting or [row.pod for row in rows]), "")
    asked = [["why", pod]] if pod else []
    asked += [["top"], ["free"], ["dashboard"]]
    return [shlex.join([gpuctl(), *words]) for words in asked]


def _examples(kubectl: str, environment: Environment) -> list[str]:
    if "fakegpu" not in environment.pids():
        return []
    return [f"  {kubectl} apply -n {EXAMPLES_NAMESPACE} -f {shlex.quote(str(EXAMPLES / 'vllm'))}"]
