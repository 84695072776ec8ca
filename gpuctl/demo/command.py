"""``gpuctl demo``: what the product does, on a real API server, in less than a minute.

Exit status 0: every cell is as expected. 1: one is not, or the demo could not run. 130: Ctrl-C.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

from gpuctl.demo import state_file
from gpuctl.demo.display import Display
from gpuctl.demo.environment import SABOTAGES, DemoError, Environment
from gpuctl.demo.expectations import NAMES
from gpuctl.demo.scenario import Scenario
from gpuctl.product import ProductError
from tools.controlplane import ControlPlaneError

INTERRUPTED: Final = 130
#: What a person can run into; the text is for them.
EXPLAINED: Final = (DemoError, ProductError, ControlPlaneError)


@click.command()
@click.option("--keep", is_flag=True, help="leave everything running at the end")
@click.option("--end", is_flag=True, help="end what --keep has left running")
@click.option(
    "--scenario",
    type=click.Choice([*NAMES, "all"]),
    default="all",
    show_default=True,
    help="the map of five pods, the MIG cluster, or both",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="where logs and data go  [default: a temporary one; with --keep below ~/.local/state]",
)
@click.option("--sabotage", type=click.Choice(SABOTAGES), hidden=True)
def demo(
    keep: bool, end: bool, scenario: str, directory: Path | None, sabotage: str | None
) -> None:
    """Show maps and MIG fallback at work on a real Kubernetes API server.

    etcd, kube-apiserver and the controllers run on this machine, nodes are played by KWOK; they
    are built once, which takes minutes and is announced. No container engine, no GPU and no
    cluster of yours is touched.
    """
    names = NAMES if scenario == "all" else (scenario,)
    try:
        with _interruptible():
            if end:
                _say(state_file.end(directory or state_file.directory()))
                return
            _run(names, directory, keep=keep, sabotage=sabotage)
    except EXPLAINED as error:
        _say(f"gpuctl demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        _say("gpuctl demo: interrupted; everything it started has been ended", err=True)
        sys.exit(INTERRUPTED)


def _run(
    names: tuple[str, ...], directory: Path | None, *, keep: bool, sabotage: str | None
) -> None:
    with Display() as screen:
        folder = _folder(directory, keep=keep)
        story = Scenario(names, screen)
        story.foretell()
        try:
            wrong = _play(story, folder, keep=keep, sabotage=sabotage)
        except EXPLAINED as error:
            raise DemoError(f"{error}\nthe logs are in {folder}") from None
        except KeyboardInterrupt:
            _tidy(folder, directory, keep=keep)
            raise
    if wrong:
        cells = "\n".join(f"  {cell}" for cell in wrong)
        _say(f"{len(wrong)} of {story.cells()} cells are not as expected:\n{cells}", err=True)
        _say(f"the logs are in {folder}", err=True)
        sys.exit(1)
    _say(f"all {story.cells()} cells are as expected, after {screen.elapsed_s():.0f} s")
    _tidy(folder, directory, keep=keep)


def _tidy(folder: Path, chosen: Path | None, *, keep: bool) -> None:
    """Remove a temporary folder; one that was chosen is its owner's."""
    if chosen is None and not keep:
        shutil.rmtree(folder)


def _play(story: Scenario, folder: Path, *, keep: bool, sabotage: str | None) -> list[str]:
    """Everything that needs the running parts; they are ended here, unless they are kept."""
    with Environment(folder, detached=keep) as stage:
        story.set_up(stage, sabotage)
        wrong = story.play(stage)
        story.finish(stage)
        if keep:
            state_file.write_down(folder, stage.pids())
            _say(state_file.advice(stage))
    return wrong


def _folder(directory: Path | None, *, keep: bool) -> Path:
    """Where the demo keeps its files."""
    if directory is None and not keep:
        return Path(tempfile.mkdtemp(prefix="gpu-demo-"))
    folder = (directory or state_file.directory()).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise DemoError(
            f"{folder}: is not empty; if a demo runs there, end it with: "
            f"{state_file.ending(folder)}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends the demo like Ctrl-C: in order."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err)
