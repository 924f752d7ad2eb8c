"""The report's charts, drawn by matplotlib in the report's look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _forebay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES: tuple[Any, ...] = ("solid", (0, (6, 3)), (0, (1.5, 2)), (0, (8, 3, 1.5, 3)))
_LINES = 8
#: Of more points than this not each has a mark.
_MARKS = 24


def _chosen(all: list[Any], wanted: int, what: str) -> Any:
    if not -len(all) <= wanted < len(all):
        raise ValueError(f"{what}={wanted}: there are {len(all)}, from 0")
    return all[wanted]


def _bytes(number: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} TiB"


def _number(number: float) -> str:
    for factor, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(number) >= factor:
            return f"{number / factor:.3g}{unit}"
    return f"{number:.3g}"


def _tick(unit: Any, number: float) -> str:
    if isinstance(unit, dict):
        return _bytes(number * unit["pages"])
    if unit == "bytes":
        return _bytes(number)
    if unit == "ratio":
        return f"{100 * number:.3g} %"
    return _number(number) + {"seconds": " s", "milliseconds": " ms"}.get(unit, "")


def _axis(axis: Any, model: dict[str, Any]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    unit = model["unit"]
    if model["log"]:
        axis._set_axes_scale("log", base=2 if isinstance(unit, dict) or unit == "ratio" else 10)
    if model["ticks"]:
        axis.set_major_locator(FixedLocator(model["ticks"]))
        axis.set_minor_locator(FixedLocator([]))
    axis.set_major_formatter(FuncFormatter(lambda number, _: _tick(unit, number)))
    axis.set_minor_formatter(NullFormatter())


def draw(document: dict[str, Any], chart: str | None, trace: int, view: int | None, ax: Axes | None) -> Axes:
    """Draws a chart of a document as `Answer.plot` says."""
    import matplotlib.pyplot as plt

    section = _chosen(document["sections"], trace, "trace")
    charts = {one["id"]: one for one in section["charts"]}
    if chart is not None and chart not in charts:
        raise ValueError(f"there is no chart `{chart}`; there are {', '.join(charts)}")
    model = charts[chart] if chart is not None else section["charts"][0]
    shown = _chosen(model["views"], model["first"] if view is None else view, "view")
    colors = dict(_forebay.colors())
    if ax is None:
        _, ax = plt.subplots(figsize=(8, 4.6), layout="constrained")
    keys = {key["name"]: key for key in document["keys"]} if model["keyed"] else {}
    order = {name: index for index, name in enumerate(name for name, key in keys.items() if not key["bound"])}
    series = []
    for index, one in enumerate(shown["series"]):
        key = keys.get(one["name"])
        if not (key["shown"] if key else one["shown"]):
            continue
        bound = bool(key and key["bound"])
        place = order.get(one["name"], index)
        color = colors["ink"] if bound else colors[f"c{place % _LINES}"]
        series.append((one, color, _DASHES[1] if bound else _DASHES[place // _LINES % len(_DASHES)]))
    {"lines": _lines, "steps": _lines, "bars": _bars, "ranking": _ranking, "grid": _grid}[model["kind"]](ax, model, shown, series)
    title = f"{model['title']}: {section['title']}"
    label = ", ".join(word for word in (shown["group"], shown["label"]) if word)
    ax.set_title(f"{title}, {label}" if label else title, loc="left", color=colors["ink"], fontsize=11)
    for name, spine in ax.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color(colors["quiet"])
    ax.tick_params(colors=colors["quiet"], length=3)
    ax.grid(axis="x" if model["kind"] == "ranking" else "y", color=colors["rule"], linewidth=0.8)
    ax.set_axisbelow(True)
    for axis in (ax.xaxis, ax.yaxis):
        axis.label.set_color(colors["quiet"])
    if len(series) > 1 and model["kind"] not in ("ranking", "grid"):
        ax.legend(frameon=False, fontsize=9, labelcolor=colors["ink"])
    return ax


def _lines(ax: Axes, model: dict[str, Any], view: dict[str, Any], series: list[Any]) -> None:
    _axis(ax.xaxis, model["x"])
    _axis(ax.yaxis, model["y"])
    ax.set_xlabel(model["x"]["title"])
    ax.set_ylabel(model["y"]["title"])
    x = view["x"]
    mark = model.get("mark")
    for one, color, dash in series:
        points = [(at, y) for at, y in zip(x, one["y"]) if y is not None]
        ax.plot(
            [at for at, _ in points],
            [y for _, y in points],
            label=one["name"],
            color=color,
            linestyle=dash,
            linewidth=1.8,
            marker="o" if len(points) <= _MARKS and model["kind"] == "lines" else "",
            markersize=4,
            drawstyle="steps-post" if model["kind"] == "steps" else "default",
        )
        if mark and mark["series"] == one["name"]:
            ax.plot(*zip(*[point for point in points if point[0] == mark["x"]]), "o", markersize=10, fillstyle="none", color=color)
    if not model["y"]["log"] and model["y"]["unit"] != "ratio":
        ax.set_ylim(bottom=0)


def _bars(ax: Axes, model: dict[str, Any], view: dict[str, Any], series: list[Any]) -> None:
    labels = [str(label) for label in view["x"]]
    width = 0.8 / max(len(series), 1)
    for index, (one, color, _) in enumerate(series):
        places = [place + (index + 0.5) * width - 0.4 for place in range(len(labels))]
        ax.bar(places, [y or 0.0 for y in one["y"]], width=width * 0.95, color=color, label=one["name"])
    _axis(ax.yaxis, model["y"])
    ax.set_xticks(range(len(labels)), labels, rotation=45 if len(labels) > 8 else 0, ha="right" if len(labels) > 8 else "center")
    ax.set_xlabel(model["x"]["title"])
    ax.set_ylabel(model["y"]["title"])


def _ranking(ax: Axes, model: dict[str, Any], view: dict[str, Any], series: list[Any]) -> None:
    colors = dict(_forebay.colors())
    labels = [str(label) for label in view["x"]]
    left = [0.0] * len(labels)
    for index, one in enumerate(view["series"]):
        y = [y or 0.0 for y in one["y"]]
        ax.barh(labels, y, left=left, height=0.7, color=colors[f"c{index % _LINES}"], label=one["name"])
        left = [before + more for before, more in zip(left, y)]
    ax.invert_yaxis()
    _axis(ax.xaxis, model["y"])
    ax.set_xlabel(model["y"]["title"])
    if len(view["series"]) > 1:
        ax.legend(frameon=False, fontsize=9)


def _grid(ax: Axes, model: dict[str, Any], view: dict[str, Any], series: list[Any]) -> None:
    import numpy as np
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    grid = view["grid"]
    counts = np.array([[y or 0.0 for y in one["y"]] for one, _, _ in series]).reshape(len(series), grid["rows"], grid["columns"])
    whole = counts.sum(axis=0)
    palette = np.array([to_rgb(color) for _, color, _ in series])
    mean = np.einsum("srk,sc->rkc", counts, palette) / np.maximum(whole, 1)[..., None]
    depth = np.where(whole > 0, 0.3 + 0.7 * np.log1p(whole) / max(np.log1p(whole.max()), 1e-9), 0.0)
    image = 1 - depth[..., None] * (1 - mean)
    extent = (grid["x"][0], grid["x"][1], grid["y"][0], grid["y"][1])
    ax.imshow(image, origin="lower", aspect="auto", interpolation="nearest", extent=extent)
    _axis(ax.xaxis, model["x"])
    _axis(ax.yaxis, model["y"])
    ax.set_xlabel(model["x"]["title"])
    ax.set_ylabel(model["y"]["title"])
    ax.legend(handles=[Patch(color=color, label=one["name"]) for one, color, _ in series], frameon=False, fontsize=9)
