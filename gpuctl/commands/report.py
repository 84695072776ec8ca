"""``gpuctl report``: a Markdown report from the JSON of ``gpuctl verify``.

Exit status 0, or 1 if the file is not such a result.
"""

from __future__ import annotations

from typing import IO, Final

import click
import msgspec

from gpuctl.input_error import InputError
from gpuctl.options import Strict
from gpuctl.verify.report import report as render
from gpuctl.verify.result import Result

BYTES_MAX: Final = 16 << 20


@click.command(cls=Strict)
@click.argument("result", type=click.File("rb"))
def report(result: IO[bytes]) -> None:
    """Write a report from the result of ``gpuctl verify -o json`` (a file, or - for stdin).

    It has the allocation strategy, the priorities, the monitoring, the measured durations and the
    check list.
    """
    content = result.read(BYTES_MAX + 1)
    if len(content) > BYTES_MAX:
        raise InputError(f"the result is larger than {BYTES_MAX} bytes")
    try:
        decoded = msgspec.json.decode(content, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a result of gpuctl verify -o json: {error}") from error
    click.echo(render(decoded), nl=False)
