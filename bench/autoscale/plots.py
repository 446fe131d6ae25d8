"""Draws the benchmark's pictures from its results: a frontier per scenario, and a day's replicas over time. Needs matplotlib."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.autoscale.cells import ORACLE, OURS
from bench.autoscale.results import RESULTS, STATIC, Found, Place, frontier

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images"
_COLOURS = {OURS: "#c7522a", STATIC: "#333333", ORACLE: "#5b8c5a"}
_OTHERS = ("#0b6e99", "#8a6fb0", "#b08a2e", "#6c8f9c", "#a05a7a", "#7a8793")
_SLOT_HOURS = 1 / 12


def draw(results: Mapping[str, Any], folder: Path = FOLDER) -> list[Path]:
    """Write the pictures, and tell which; the same results give the same files."""
    found = Found(results["rows"])
    written = []
    for place in found.places:
        scenario, hardware, cold_start = place
        name = f"autoscaling-{scenario}-{hardware}-{cold_start:g}s"
        written.append(_saved(_frontier(found, place), folder / f"{name}.svg"))
        if fleets(found, place):
            written.append(_saved(_over_time(found, place), folder / f"{name}-fleet.svg"))
    return written


def fleets(found: Found, place: Place) -> dict[str, list[list[float]]]:
    """Fleets over time with the first seed, of the settings as shipped and of the clairvoyant for 99 %."""
    return {
        policy: row["fleet"]
        for policy in found.policies(place)
        for row in found.of(place, policy).get(1, [])
        if "fleet" in row and row["variant"] in ("shipped", "0.99")
    }


def _frontier(found: Found, place: Place) -> "Figure":
    figure, (axes,) = _figure(1, 4.0)
    others = iter(_OTHERS * 8)
    for policy in found.policies(place):
        points = frontier(found.of(place, policy).get(1, []))
        if not points:
            continue
        colour = _COLOURS.get(policy) or next(others)
        axes.plot(
            *([hours for hours, _ in points], [100 * (1 - met) for _, met in points]),
            *("o-",),
            color=colour,
            label=policy,
            linewidth=2.2 if policy in _COLOURS else 1.0,
            markersize=5 if policy in _COLOURS else 3,
        )
    axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_yscale("log")
    axes.set_xlabel("accelerator-hours")
    axes.set_ylabel("requests that missed, %")
    axes.set_title(" · ".join((place[0], place[1], f"cold start {place[2]:g} s")), fontsize=9)
    axes.legend(fontsize=6, ncols=3)
    return figure


def _over_time(found: Found, place: Place) -> "Figure":
    figure, (load, fleet) = _figure(2, 4.6)
    shown = fleets(found, place)
    for policy, each in shown.items():
        hours = [_SLOT_HOURS * slot for slot in range(len(each))]
        if policy == OURS or len(shown) == 1:
            load.fill_between(hours, [slot[0] for slot in each], color="#7a8793", linewidth=0)
        fleet.step(
            *(hours, [slot[1] for slot in each]),
            where="post",
            color=_COLOURS.get(policy, _OTHERS[0]),
            label=policy,
            linewidth=1.2,
        )
    load.set_ylabel("requests/s")
    load.set_title(" · ".join((place[0], place[1], f"cold start {place[2]:g} s")), fontsize=9)
    fleet.set_ylabel("replicas paid for")
    fleet.set_xlabel("hours")
    fleet.legend(fontsize=7)
    return figure


def _figure(rows: int, height: float) -> tuple["Figure", list["Axes"]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, height))
    # Margins of our own: what matplotlib's solver finds differs from run to run in the last bit.
    figure.subplots_adjust(left=0.09, right=0.98, bottom=0.12, top=0.93, hspace=0.25)
    return figure, [figure.add_subplot(rows, 1, place + 1) for place in range(rows)]


def _saved(figure: "Figure", path: Path) -> Path:
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with mpl.rc_context({"svg.hashsalt": "tierwright", "svg.fonttype": "none", "font.size": 9}):
        FigureCanvasSVG(figure).print_figure(path, format="svg", metadata={"Date": None}, facecolor="white")
    return path


def main() -> None:
    """Draw from the results that are there."""
    for path in draw(json.loads(RESULTS.read_text("utf-8"))):
        print(path.name)


if __name__ == "__main__":
    main()
