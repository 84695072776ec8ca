"""What a kubeconfig lacks, in one line that names the fix.

The rules are those of client-go (tools/clientcmd): ``--kubeconfig`` is one file, the variable
KUBECONFIG a list of files whose contexts are merged, and ``~/.kube/config`` the default.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

VARIABLE: Final = "KUBECONFIG"
DEFAULT: Final = "~/.kube/config"
#: Set in every pod: without a kubeconfig the ServiceAccount of the pod is used.
IN_CLUSTER: Final = "KUBERNETES_SERVICE_HOST"
BYTES_MAX: Final = 4 << 20
NAMES_MAX: Final = 10


def defect(
    file: str | None, context: str | None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """Why no cluster can be reached with this file and context, or None."""
    if file is None and context is None and IN_CLUSTER in environment:
        return None
    paths = [file] if file is not None else _paths(environment)
    found = [path for path in paths if Path(path).expanduser().is_file()]
    if not found:
        if file is not None:
            return f"{file}: no such kubeconfig file"
        verb = "does not exist" if len(paths) == 1 else "do not exist"
        return f"no cluster: {', '.join(paths)} {verb} (pass --kubeconfig FILE)"
    contexts: dict[str, None] = {}
    current = ""
    for path in found:
        content = _read(path)
        if isinstance(content, str):
            return content
        contexts |= dict.fromkeys(_names(content.get("contexts")))
        current = current or str(content.get("current-context") or "")
    return _missing_context(context, current, list(contexts), found)


def _paths(environment: Mapping[str, str]) -> list[str]:
    listed = [path for path in environment.get(VARIABLE, "").split(os.pathsep) if path]
    return listed or [DEFAULT]


def _read(path: str) -> dict[str, Any] | str:
    """The file's content, or why it is no kubeconfig."""
    try:
        with Path(path).expanduser().open("rb") as opened:
            data = opened.read(BYTES_MAX + 1)
        if len(data) > BYTES_MAX:
            return f"{path}: is larger than {BYTES_MAX >> 20} MiB, which no kubeconfig is"
        content = yaml.safe_load(data)
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        return f"{path}: is not YAML: {str(error).splitlines()[0]}"
    return content if isinstance(content, dict) else f"{path}: is no kubeconfig"


def _names(contexts: Any) -> list[str]:
    found = contexts if isinstance(contexts, list) else []
    return [str(one["name"]) for one in found if isinstance(one, dict) and "name" in one]


def _missing_context(
    wanted: str | None, current: str, names: list[str], files: list[str]
) -> str | None:
    where = ", ".join(files)
    if not names:
        return f"no cluster: {where} has no context"
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    there = f"there are: {', '.join(sorted(names)[:NAMES_MAX])}{more}"
    if wanted is not None:
        return None if wanted in names else f"context {wanted} does not exist; {there}"
    if not current:
        return f"{where} has no current context (pass --context NAME; {there})"
    if current not in names:
        return f"the current context {current} of {where} does not exist; {there}"
    return None
