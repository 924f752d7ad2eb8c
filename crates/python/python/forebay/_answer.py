"""Answers: tables, charts and advice."""

from __future__ import annotations

import datetime
import html
import json
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from . import _forebay

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes
    from typing_extensions import Self

#: The height of a report in a notebook, in pixels: it scrolls.
_HEIGHT = 820


def _now() -> str:
    return f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC"


class Rows(ABC):
    """A table with the columns of the command's CSV.

    `to_pandas` and `to_polars` leave out the columns that nothing was asked of. `to_arrow` has all of them, and so has what comes by
    ``__arrow_c_stream__``: ``polars.DataFrame(answer)``, ``pyarrow.table(answer)`` and DuckDB take it as it is.
    """

    #: Columns that are there even if they are null in all rows.
    _always: frozenset[str] = frozenset()

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The table. Each field's metadata has its ``unit`` and ``meaning``; a null is what is not known or was not asked for."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _filled(self) -> pa.Table:
        """The table without the columns that are null in all rows."""
        table = self.to_arrow()
        empty = [name for name in table.column_names if table.num_rows and table.column(name).null_count == table.num_rows]
        return table.drop_columns([name for name in empty if name not in self._always])

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, without the columns that are null in all rows."""
        return self._filled().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars DataFrame, without the columns that are null in all rows."""
        import polars as pl

        return pl.DataFrame(self._filled())

    def __len__(self) -> int:
        """How many rows the table has."""
        rows: int = self.to_arrow().num_rows
        return rows

    @property
    def columns(self) -> dict[str, tuple[str, str]]:
        """All columns that there are: unit and meaning of each, by name."""
        words = {field.name: field.metadata for field in self.to_arrow().schema}
        return {name: (said[b"unit"].decode(), said[b"meaning"].decode()) for name, said in words.items()}


class Answer(Rows):
    """What was asked, answered: a table with the columns of the command's CSV, its advice, its report."""

    def __init__(self, answer: _forebay.Answer, command: str) -> None:
        self._answer = answer
        self._command = command
        self._table: pa.Table | None = None
        self._charts: dict[str, Any] | None = None

    def __reduce__(self) -> Any:
        raise TypeError("an Answer cannot be pickled: send to_arrow(), json() or a report")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        # It does not change.
        return self

    def to_arrow(self) -> pa.Table:
        """The table. Each field's metadata has its ``unit`` and ``meaning``; a null is what is not known or was not asked for."""
        if self._table is None:
            self._table = pa.table(self._answer.table())
        return self._table

    @property
    def advice(self) -> str:
        """What to do, in the command's words; of several traces each with its name before it."""
        advice = self._answer.advice()
        if len(advice) == 1:
            return advice[0][1]
        return "\n\n".join(f"{trace}: {words}" for trace, words in advice if words)

    def json(self) -> list[dict[str, Any]]:
        """All that is known, for each trace as ``--format json`` of the command writes it."""
        found: list[dict[str, Any]] = json.loads(self._answer.json())
        return found

    def _document(self) -> dict[str, Any]:
        if self._charts is None:
            self._charts = json.loads(self._answer.charts())
        assert self._charts is not None
        return self._charts

    @property
    def charts(self) -> dict[str, str]:
        """The charts that `plot` draws of the first trace: titles by name."""
        return {chart["id"]: chart["title"] for chart in self._document()["sections"][0]["charts"]}

    def plot(self, chart: str | None = None, *, trace: int = 0, view: int | None = None, ax: Axes | None = None) -> Axes:
        """Draws a chart of the report with matplotlib, in its look; returns the axes.

        Args:
            chart: one of `charts`; by default the first.
            trace: which of several traces, from 0.
            view: which of several views of the chart (sizes, policies), from 0; by default the one that the report opens.
            ax: where to draw it; by default a new figure.
        """
        from . import _plot

        return _plot.draw(self._document(), chart, trace, view, ax)

    def to_html(self) -> str:
        """The report: one page, charts and all figures, that needs no network."""
        return self._answer.html(self._command, _now())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the report to a file, whole or not at all. An earlier report is replaced; any other file is a FileExistsError."""
        self._answer.write_report(path, self._command, _now())

    def _repr_html_(self) -> str:
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 0"></iframe>'
        )

    def __repr__(self) -> str:
        traces = "; ".join(f"{name}: {words}" for name, words in self._answer.traces())
        rows = self.to_arrow().num_rows
        advice = f"\n{self.advice}" if self.advice else ""
        return f"<forebay.Answer of {rows} rows to {self._command}>\n{traces}{advice}"
