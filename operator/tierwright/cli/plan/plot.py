"""Draws what ``tierwright plan`` found: requests, replicas and attainment over time. Needs matplotlib, the extra `plan`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tierwright.cli.plan.table_report import Found, label
from tierwright.planning.case import Setting, as_written
from tierwright.planning.search import best_static

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".svg", ".png")
MISSING: Final = (
    "--plot needs matplotlib, which is not installed; install it by pip install matplotlib, or Tierwright with its extra "
    "by pip install '.[plan]' in the clone, or leave --plot out: table and JSON need nothing"
)
_POINTS: Final = 240
_INK: Final = "#333333"
_DEMAND: Final = "#7a8793"
_COLOURS: Final = ("#0b6e99", "#c7522a", "#5b8c5a")


def available() -> bool:
    """Whether there is something to draw with."""
    try:
        import matplotlib as _  # noqa: F401 - an extra
    except ImportError:
        return False
    return True


def draw(found: Sequence[Found], path: Path) -> None:
    """Write the picture; the same plan gives the same file. Raises OSError."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(
        {"svg.hashsalt": "tierwright", "svg.fonttype": "none", "font.size": 9, "axes.edgecolor": _INK}
    ):
        # Margins in inches of our own: what matplotlib's solver finds differs from run to run in the last bit.
        height = 5.6 * len(found)
        figure = Figure(figsize=(9, height))
        figure.subplots_adjust(
            left=0.6 / 9, right=1 - 0.15 / 9, bottom=0.45 / height, top=1 - 0.3 / height, hspace=0.3
        )
        axes = figure.subplots(3 * len(found), 1, squeeze=False, height_ratios=[2, 3, 2] * len(found))
        for place, each in enumerate(found):
            _tier(each, [row[0] for row in axes[3 * place : 3 * place + 3]])
        svg = path.suffix == ".svg"
        canvas = FigureCanvasSVG(figure) if svg else FigureCanvasAgg(figure)
        canvas.print_figure(
            path,
            format=path.suffix.removeprefix("."),
            dpi=150,
            metadata={"Date": None} if svg else {"Software": None},
            facecolor="white",
        )


def _settings(found: Found) -> list[Setting]:
    """The tier's own setting, the best static one, and the cheapest."""
    static = best_static(found.case, found.tried)
    wanted = (as_written(found.case), static, found.cheapest)
    return list(dict.fromkeys(each for each in wanted if each is not None))


def _tier(found: Found, axes: Sequence["Axes"]) -> None:
    demand, replicas, attained = axes
    case, settings = found.case, _settings(found)
    lines = {setting: found.over_time(setting, _POINTS) for setting in settings}
    hours = [part.begin / 3600 for part in lines[settings[0]]]
    demand.fill_between(
        hours, [part.rate for part in lines[settings[0]]], step="post", color=_DEMAND, alpha=0.5, linewidth=0
    )
    demand.set_ylabel("requests/s")
    demand.set_title(f"{case.name}: a model, not a measurement", loc="left", fontsize=10, color=_INK)
    for colour, setting in zip(_COLOURS, settings, strict=False):
        parts, figures = lines[setting], found.tried[setting]
        words = f"{label(setting, case)}: {figures.attainment:.2%}, {figures.replica_hours:.4g} replica-hours"
        replicas.step(
            hours, [part.replicas for part in parts], where="post", color=colour, label=words, linewidth=1.2
        )
        scored = [
            (at, 100 * part.attainment)
            for at, part in zip(hours, parts, strict=True)
            if part.attainment is not None
        ]
        attained.plot(
            [at for at, _ in scored],
            [share for _, share in scored],
            color=colour,
            linewidth=1,
            marker=".",
            markersize=2,
        )
    replicas.set_ylabel("replicas")
    replicas.set_ylim(bottom=0)
    replicas.legend(fontsize=8, frameon=False)
    attained.axhline(100 * case.promise, color=_INK, linewidth=0.8, linestyle="--")
    attained.set_ylabel("attained, %")
    attained.set_xlabel("hours")
    for each in axes:
        each.set_xlim(hours[0], max(hours[-1], 1 / 60))
        each.spines[["top", "right"]].set_visible(False)
