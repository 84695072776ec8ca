"""A local git repository with directories of this one, like a user's copy.

Commits have a fixed author and ignore the machine's git configuration. The URL is ``file://``, so
no server is needed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from tools.controlplane.errors import ControlPlaneError

_WHO: Final = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "A User"), ("EMAIL", "user@example.com"))
}
_ALONE: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class Repository:
    """One repository with one branch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def of(cls, directory: Path, source: Path, folders: Iterable[str]) -> Repository:
        """Create a repository in a new directory from directories of a source tree."""
        repository = cls(directory)
        for folder in folders:
            shutil.copytree(source / folder, directory / folder)
        repository.git("init", "--quiet", "--initial-branch=main")
        repository.commit("The first state")
        return repository

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"file://{self.directory}"

    @property
    def head(self) -> str:
        """The last commit."""
        return self.git("rev-parse", "HEAD").strip()

    def edit(self, path: str, change: Callable[[str], str], why: str) -> str:
        """Change one file, commit it, and return the commit."""
        file = self.directory / path
        before = file.read_text(encoding="utf-8")
        after = change(before)
        if after == before:
            raise ControlPlaneError(f"{path}: nothing has changed, so there is nothing to commit")
        file.write_text(after, encoding="utf-8")
        return self.commit(why)

    def commit(self, why: str) -> str:
        """Commit all changes, and return the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", why)
        return self.head

    def revert(self, commit: str = "HEAD") -> str:
        """Revert a commit, and return the new one."""
        self.git("revert", "--no-edit", commit)
        return self.head

    def tag(self, name: str) -> None:
        """Tag the last commit."""
        self.git("tag", name)

    def git(self, *words: str) -> str:
        """Run a git command in this repository."""
        done = subprocess.run(
            ["git", "-C", str(self.directory), *words],
            capture_output=True,
            text=True,
            env={"PATH": os.environ.get("PATH", os.defpath), **_WHO, **_ALONE},
            check=False,
        )
        if done.returncode != 0:
            raise ControlPlaneError(f"git {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout
