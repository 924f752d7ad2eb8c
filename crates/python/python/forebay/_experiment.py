"""Experiments: figures of commands in tables, printed ones beside them."""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ._forebay import Error

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("experiment", "table", "row", "column")]
    + [(name, pa.float64()) for name in ("theirs", "ours", "least", "most")]
)


def command() -> str:
    """The command ``forebay`` that came with the package, or the one on the path.

    Raises:
        FileNotFoundError: there is none.
    """
    found = shutil.which("forebay", path=sysconfig.get_path("scripts")) or shutil.which("forebay")
    if found is None:
        raise FileNotFoundError("there is no command `forebay`: the wheel has it; a package that was built here needs `cargo install`")
    return found


class Experiment:
    """The tables of experiments: a row for each figure, theirs beside ours."""

    def __init__(self, answer: list[dict[str, Any]]) -> None:
        self._answer = answer

    def json(self) -> list[dict[str, Any]]:
        """All that is known, as ``forebay experiment --format json`` writes it."""
        return self._answer

    def to_arrow(self) -> pa.Table:
        """The rows of ``forebay experiment --format csv``: ``ours`` is the mean over the seeds, ``least`` and ``most`` its range."""
        rows: list[dict[str, Any]] = []
        for experiment in self._answer:
            for table in experiment["tables"]:
                for row in table["rows"]:
                    for column, name in enumerate(table["columns"]):
                        ours = row["ours"][column] if column < len(row["ours"]) else []
                        figures = {"ours": sum(ours) / len(ours), "least": min(ours), "most": max(ours)} if ours else {}
                        names = {"experiment": experiment["title"], "table": table["title"], "row": row["row"], "column": name}
                        rows.append({**names, "theirs": row["theirs"][column], **figures})
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def to_pandas(self) -> pd.DataFrame:
        """The same for pandas."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The same for Polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    @property
    def advice(self) -> str:
        """What agrees with the printed figures and what does not, as the experiments say."""
        return "\n\n".join(experiment["finding"] for experiment in self._answer if experiment["finding"])

    def __repr__(self) -> str:
        titles = ", ".join(repr(experiment["title"]) for experiment in self._answer)
        return f"<forebay.Experiment {titles}>"

    def _repr_html_(self) -> str:
        parts = []
        for experiment in self._answer:
            parts.append(f"<h3>{html.escape(experiment['title'])}</h3>")
            for table in experiment["tables"]:
                head = "".join(f"<th>{html.escape(name)}</th>" for name in table["columns"])
                parts.append(f"<h4>{html.escape(table['title'])}</h4><table><tr><th></th>{head}</tr>")
                for row in table["rows"]:
                    cells = "".join(f"<td>{_cell(ours, theirs)}</td>" for ours, theirs in zip(row["ours"], row["theirs"]))
                    parts.append(f"<tr><th>{html.escape(row['row'])}</th>{cells}</tr>")
                parts.append("</table>")
            parts.append(f"<p>{html.escape(experiment['finding'] or '')}</p>")
        return "".join(parts)


def _cell(ours: list[float], theirs: float | None) -> str:
    mean = f"{sum(ours) / len(ours):.6g}" if ours else ""
    return mean if theirs is None else f"{mean} ({theirs:.6g})"


def experiment(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    traces: str | os.PathLike[str] | None = None,
) -> Experiment:
    """Runs experiments, TOML files that name commands, traces and figures (docs/experiments.md): ``forebay experiment``.

    The commands run as processes of their own; Ctrl-C ends them.

    Args:
        files: one, or several.
        traces: the folder that the traces' names start from; by default that of the experiment.

    Raises:
        Error: what failed, in the command's words.
        FileNotFoundError: there is no command ``forebay``.
    """
    named = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    words = [command(), "experiment", "--format", "json"]
    if traces is not None:
        words.append(f"--traces={os.fspath(traces)}")
    # A file is a file, whatever its name begins with.
    words += ["--", *(os.fspath(file) for file in named)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().removeprefix("forebay: ")
        if done.returncode == 2:
            raise ValueError(said)
        raise Error(said or f"`forebay experiment` ended with exit code {done.returncode}")
    return Experiment(json.loads(done.stdout))
