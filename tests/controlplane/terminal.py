"""A terminal in the repository's folder, on which documents' commands are typed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.console_sessions import Step, alike
from tools.charts import helm
from tools.controlplane import ControlPlane
from tools.product import ROOT

ASKED_AGAIN_MAX: Final = 20


class Terminal:
    """Types commands as a person would, in the repository's folder."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        kubeconfig = shutil.copy(plane.kubeconfig, home / "kubeconfig")
        programs = [plane.program("kubectl"), Path(helm.program("helm")), Path(sys.executable)]
        folders = [program.parent for program in programs]
        path = ":".join([*map(str, folders), os.environ["PATH"]])
        self._environment = {"PATH": path, "HOME": str(home), "KUBECONFIG": str(kubeconfig)}
        named = self.type("kubectl config current-context").stdout.strip()
        self.type(f"kubectl config rename-context {named} kind-kind")  # as the pages have it

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """One command."""
        return subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def play(self, step: Step) -> None:
        """Type a step's command; it prints what is shown, but for what is made up each time."""
        ended = self._answered(step.command)
        printed = ended.stdout + ended.stderr
        said = f"$ {step.command}\n{printed}"
        assert alike(printed.splitlines()) == alike(step.shown), said
        is_refused = any(line.startswith("error: ") for line in step.shown)
        assert (ended.returncode != 0) == is_refused, said

    def _answered(self, command: str) -> subprocess.CompletedProcess[str]:
        """A pod that is being replaced is absent for a moment: the wait is repeated."""
        ended = self.type(command)
        for _ in range(ASKED_AGAIN_MAX):
            if not command.startswith("kubectl wait ") or "(NotFound)" not in ended.stderr:
                break
            ended = self.type(command)
        return ended
