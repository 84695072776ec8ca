"""JSON, YAML and CSV of an answer. Their keys are a contract: added, never renamed."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

#: Of every command that prints rows, in this order.
ROWS: Final = ("table", "wide", "json", "yaml", "csv")


def write(form: str, answer: msgspec.Struct, rows: Sequence[msgspec.Struct] = ()) -> None:
    """Print the answer as ``json`` or ``yaml``, or its rows as ``csv``."""
    if form == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif form == "yaml":
        click.echo(msgspec.yaml.encode(answer).decode(), nl=False)
    else:
        click.echo(as_csv(rows), nl=False)


def as_csv(rows: Sequence[msgspec.Struct]) -> str:
    """One line per row below the keys of JSON; a list is joined by spaces, a map as ``k=v``."""
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    fields = msgspec.structs.fields(rows[0])
    writer.writerow([field.encode_name for field in fields])
    writer.writerows([[_cell(getattr(row, field.name)) for field in fields] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, dict):
        return " ".join(f"{key}={one}" for key, one in sorted(value.items()))
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if value is None else str(value).lower() if isinstance(value, bool) else value
