"""``gpuctl demo`` and ``python -m tools.demo``: maps and MIG fallback in less than a minute.

Exit status 0: every cell is as expected. 1: a cell differs, or the demo could not run. 130: Ctrl-C.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import click

from tools.controlplane import ControlPlaneError
from tools.demo import advice, state_file
from tools.demo.display import Display
from tools.demo.environment import SABOTAGES, DemoError, Environment
from tools.demo.expectations import NAMES
from tools.demo.scenario import Scenario
from tools.product import ProductError

INTERRUPTED: Final = 130
#: Errors that are reported by their text, without a traceback.
REPORTED_ERRORS: Final = (DemoError, ProductError, ControlPlaneError)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--keep", is_flag=True, help="leave everything running")
@click.option(
    "--with-fake-gpus",
    is_flag=True,
    help="with --keep: also the fake GPU operator, and the nodes of examples/",
)
@click.option("--end", is_flag=True, help="stop a demo that --keep left running")
@click.option(
    "--scenario",
    type=click.Choice([*NAMES, "all"]),
    default="all",
    show_default=True,
    help="the map with five pods, the MIG cluster, or both",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="for logs and data  [default: a temporary one; with --keep in ~/.local/state]",
)
@click.option("--sabotage", type=click.Choice(SABOTAGES), hidden=True)
def demo(
    keep: bool,
    with_fake_gpus: bool,
    end: bool,
    scenario: str,
    directory: Path | None,
    sabotage: str | None,
) -> None:
    """Show maps and MIG fallback at work on a real Kubernetes API server.

    etcd, kube-apiserver and the controllers run on this machine, and KWOK simulates the nodes. The
    first run builds these programs, which takes minutes. The demo needs no container engine and no
    GPU, and it does not use your clusters.
    """
    names = NAMES if scenario == "all" else (scenario,)
    try:
        with _interruptible():
            if end:
                _say(state_file.end(directory or state_file.directory()))
                return
            if with_fake_gpus and not keep:
                raise DemoError("--with-fake-gpus: add --keep, or the GPUs are gone at once")
            _run(names, directory, keep=keep, sabotage=sabotage, fake_gpus=with_fake_gpus)
    except REPORTED_ERRORS as error:
        _say(f"gpuctl demo: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        _say("gpuctl demo: interrupted; all its processes have ended", err=True)
        sys.exit(INTERRUPTED)


def _run(
    names: tuple[str, ...],
    directory: Path | None,
    *,
    keep: bool,
    sabotage: str | None,
    fake_gpus: bool,
) -> None:
    with Display() as display:
        folder = _folder(directory, keep=keep)
        runner = Scenario(names, display)
        try:
            runner.print_simulation()
            wrong, more = _play(runner, folder, keep=keep, sabotage=sabotage, fake_gpus=fake_gpus)
        except REPORTED_ERRORS as error:
            raise DemoError(f"{error}\nthe logs are in {folder}") from None
        except KeyboardInterrupt:
            _tidy(folder, directory, keep=keep)
            raise
        except BrokenPipeError:  # its reader has ended, for example head
            _discard(folder, directory)
            raise
    _report(runner, wrong, folder, display.elapsed_s())
    if not wrong:
        _tidy(folder, directory, keep=keep)
    _say(more)
    if wrong:
        sys.exit(1)


def _report(runner: Scenario, wrong: list[str], folder: Path, elapsed_s: float) -> None:
    if wrong:
        cells = "\n".join(f"  {cell}" for cell in wrong)
        _say(f"{len(wrong)} of {runner.cells()} cells are not as expected:\n{cells}", err=True)
        _say(f"the logs are in {folder}", err=True)
        return
    _say(f"all {runner.cells()} cells are as expected, after {elapsed_s:.0f} s")


def _tidy(folder: Path, chosen: Path | None, *, keep: bool) -> None:
    """Remove a temporary directory; keep one that the user chose."""
    if chosen is None and not keep:
        shutil.rmtree(folder)


def _discard(folder: Path, chosen: Path | None) -> None:
    """Remove the directory of a demo that has ended and whose output has no reader."""
    if chosen is None:
        shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # it has logs, or other files
        if chosen is not None:
            folder.rmdir()
        elif folder == state_file.directory():
            folder.parent.rmdir()


def _play(
    runner: Scenario, folder: Path, *, keep: bool, sabotage: str | None, fake_gpus: bool
) -> tuple[list[str], str]:
    """Run the scenario; at the end stop all programs unless ``keep``.

    Returns the differing cells, and what else the user can do.
    """
    with Environment(folder, detached=keep) as environment:
        runner.set_up(environment, sabotage)
        wrong = runner.play(environment)
        runner.finish(environment)
        if fake_gpus:
            environment.start_fake_gpus()
        if keep:
            state_file.write_down(folder, environment.pids())
            return wrong, advice.of_kept(environment, runner)
    return wrong, advice.of_ended(runner)


def _folder(directory: Path | None, *, keep: bool) -> Path:
    """The directory of the demo's files."""
    if directory is None and not keep:
        return Path(tempfile.mkdtemp(prefix="gpu-demo-"))
    folder = (directory or state_file.directory()).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise DemoError(
            f"{folder}: is not empty; if a demo runs there, stop it with: "
            f"{state_file.ending(folder)}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that all programs are stopped."""

    def interrupt(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err)


if __name__ == "__main__":
    demo(prog_name="gpuctl demo")
