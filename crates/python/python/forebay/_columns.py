"""What users have, as the columns that a trace is read from."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: The columns of a trace, as in Forebay's Parquet files.
COLUMNS = ("time", "owner", "object", "offset", "length", "operation")

#: Other names of the place, as in a CSV, and what it counts then.
PLACES = {"block": "blocks:512", "lba": "blocks:512", "lbn": "blocks:512", "sector": "blocks:512", "page": "pages", "id": "pages", "key": "pages"}

_TEXTS = ("owner", "object", "operation")
_WORDS = pa.dictionary(pa.int32(), pa.string())


def numbered(keys: Iterable[Hashable]) -> pa.Array:
    """Hashable keys as numbers, in the order of their first use."""
    numbers: dict[Hashable, int] = {}
    return pa.array([numbers.setdefault(key, len(numbers)) for key in keys], type=pa.uint64())


def _one(values: Any) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def keys(values: Any, what: str) -> pa.Array:
    """An Arrow column of keys as whole numbers: those that it has, or numbers of its distinct values."""
    if values.null_count:
        raise ValueError(f"{what} has {values.null_count} missing values: drop or fill them")
    kind = values.type
    if pa.types.is_unsigned_integer(kind):
        return values
    if pa.types.is_signed_integer(kind) and (len(values) == 0 or pc.min(values).as_py() >= 0):
        return values
    if pa.types.is_nested(kind):
        return numbered(tuple(key.items()) if isinstance(key, dict) else tuple(key) for key in values.to_pylist())
    if not pa.types.is_dictionary(kind):
        values = pc.dictionary_encode(values)
    # Dictionaries of several chunks differ until they are made one.
    values = values.unify_dictionaries().combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return values.indices.cast(pa.uint64())


def _time(column: Any) -> Any:
    """Nanoseconds: of whole numbers as they are, of floating ones as seconds, of times and durations by their type."""
    kind = column.type
    if pa.types.is_floating(kind):
        nanoseconds = pc.multiply(column.cast(pa.float64()), 1e9)
        if pc.any(pc.greater_equal(pc.abs(nanoseconds), float(1 << 63))).as_py():
            raise ValueError("column `time`: seconds beyond 2^63 nanoseconds, 292 years, are no times of a trace")
        return nanoseconds.cast(pa.int64(), safe=False)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ns", tz=kind.tz)).cast(pa.int64())
    if pa.types.is_duration(kind):
        return column.cast(pa.duration("ns")).cast(pa.int64())
    return column


def _texts(column: Any) -> pa.Array:
    """Names as a dictionary, whatever they are; missing ones stay so."""
    column = _one(column)
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), column.dictionary.cast(pa.string()))
    if not pa.types.is_string(column.type):
        column = column.cast(pa.string())
    return column.dictionary_encode().cast(_WORDS)


def check(columns: Mapping[str, str] | None, there: Sequence[str], what: str) -> dict[str, str]:
    """The column that has each part of a trace, of those that are there."""
    names = {meaning: meaning for meaning in COLUMNS if meaning in there}
    for meaning, name in (columns or {}).items():
        if meaning not in COLUMNS:
            raise ValueError(f"columns: there is no `{meaning}` in a trace; there are {', '.join(COLUMNS)}")
        if name not in there:
            raise ValueError(f"columns: {what} has no column `{name}`; it has {', '.join(there)}")
        names[meaning] = name
    if "offset" not in names:
        places = [name for name in there if name.lower() in PLACES]
        if len(places) != 1:
            raise ValueError(f"{what} has no column `offset`: say which one has it, columns={{'offset': …}}, of {', '.join(there)}")
        names["offset"] = places[0]
    return names


def of_table(table: pa.Table, columns: Mapping[str, str] | None, unit: str | None, what: str) -> tuple[pa.Table, str | None]:
    """The columns of a trace in a table, and the unit of their offsets.

    ``columns`` says which column has what where the names differ: ``{"offset": "lba"}``.
    """
    names = check(columns, table.column_names, what)
    found: dict[str, Any] = {meaning: table.column(name) for meaning, name in names.items()}
    if unit is None and "offset" not in (columns or {}):
        unit = PLACES.get(names["offset"].lower())
    if "time" in found:
        found["time"] = _time(found["time"])
    for name in _TEXTS:
        if name in found:
            found[name] = _texts(found[name])
    if not pa.types.is_integer(found["offset"].type):
        if unit not in (None, "pages"):
            raise ValueError(f"{what}: offsets in {unit} are whole numbers; those of type {found['offset'].type} are keys")
        unit = "pages"
        if "length" in found:
            # A key is not next to another: how large its object is says nothing of others.
            del found["length"]
            warnings.warn(f"{what}: each key is one page; column `{names['length']}` is left out, as sizes of objects are not replayed", stacklevel=4)
    if unit == "pages":
        found["offset"] = keys(found["offset"], f"{what}: column `{names['offset']}`")
    for name in ("time", "offset", "length"):
        column = found.get(name)
        if column is not None and pa.types.is_signed_integer(column.type) and len(column) and (pc.min(column).as_py() or 0) < 0:
            raise ValueError(f"{what}: column `{names[name]}` has negative numbers, which no {name} is")
    return pa.table(found).replace_schema_metadata(table.schema.metadata), unit
