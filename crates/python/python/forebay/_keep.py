"""Finished pieces of a sweep in a folder of Parquet files."""

from __future__ import annotations

import os
import uuid
import warnings

import pyarrow as pa
import pyarrow.parquet as pq

from . import _forebay

#: The column that says which run a row is of.
_CELL = "cell"


class Kept:
    """A folder with a file for each finished piece, written whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        self._files = 0
        self._rows = 0
        try:
            os.makedirs(self._folder, exist_ok=True)
        except OSError as error:
            raise _forebay.Error(f"keep: {self._folder} cannot be made: {error.strerror}") from error

    def rows(self, wanted: set[str]) -> tuple[list[pa.Table], dict[str, tuple[int, int]]]:
        """The tables that have rows of what is wanted, and for each such run its table and row."""
        tables: list[pa.Table] = []
        rows: dict[str, tuple[int, int]] = {}
        for name in sorted(os.listdir(self._folder)):
            if not name.endswith(".parquet"):
                continue
            path = os.path.join(self._folder, name)
            try:
                table = pq.ParquetFile(path).read()
                cells = table.column(_CELL).to_pylist()
            except (OSError, KeyError, pa.ArrowException) as error:
                warnings.warn(f"keep: {path} cannot be read, and its runs are made again: {error}", stacklevel=4)
                continue
            self._files += 1
            self._rows += len(cells)
            found = {cell: (len(tables), row) for row, cell in enumerate(cells) if cell in wanted and cell not in rows}
            if found:
                rows.update(found)
                tables.append(table.drop_columns([_CELL]))
        return tables, rows

    def add(self, cells: list[str], table: pa.Table) -> None:
        """Keeps the rows of a piece.

        Raises:
            Error: they cannot be written; what is kept already stays.
        """
        path = os.path.join(self._folder, f"piece-{uuid.uuid4().hex}.parquet")
        beside = f"{path}.part"
        try:
            with open(beside, "xb") as file:
                pq.write_table(table.append_column(_CELL, pa.array(cells)), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, path)
        except OSError as error:
            raise _forebay.Error(
                f"keep: {self._folder}: a finished piece cannot be written: {error.strerror or error}; {self._rows} runs in {self._files} "
                "files are kept there: make room and ask again, which makes only the others"
            ) from error
        finally:
            if os.path.exists(beside):
                os.remove(beside)
        self._files += 1
        self._rows += len(cells)
