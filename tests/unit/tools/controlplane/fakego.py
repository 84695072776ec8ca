"""A Go command that builds nothing: it records its arguments and follows its environment."""

from __future__ import annotations

from pathlib import Path

SCRIPT = """#!/bin/sh
echo "$@" >> "{calls}"
case "$1" in
version) echo 'go version go{version} linux/amd64' ;;
list) printf 'runtime\\nfmt\\nmain\\n' ;;
build)
  printf 'runtime\\nfmt\\n'
  {body}
  while [ "$1" != -o ]; do shift; done
  echo '#!/bin/sh' > "$2"
  ;;
esac
"""


class FakeGo:
    """The script, and what it was called with."""

    def __init__(self, folder: Path, *, version: str = "1.26.8", body: str = "") -> None:
        self.calls_file = folder / "calls"
        self.path = folder / "go"
        folder.mkdir(parents=True, exist_ok=True)
        self.path.write_text(SCRIPT.format(calls=self.calls_file, version=version, body=body))
        self.path.chmod(0o755)

    def calls(self, word: str) -> list[str]:
        """The calls of one subcommand."""
        if not self.calls_file.exists():
            return []
        return [line for line in self.calls_file.read_text().splitlines() if line.startswith(word)]
