"""On any legal page the parser finds what prometheus_client finds; on any other text it does not fail."""

import math
import re

from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.observe.engine_page import page
from tierwright.observe import metric_names as names
from tierwright.observe.metrics import PageRefusedError, labels_of, parse

GAUGES = {"running": names.RUNNING[0], "waiting": names.WAITING[0]}
COUNTERS = {"finished": names.FINISHED[0], "output_tokens": names.OUTPUT_TOKENS[0]}
OTHERS = ("vllm:num_requests_waiting_by_reason", "go_goroutines", "vllm:request_prompt_tokens_sum")

# No line breaks but \n: prometheus_client reads its text as a file, and a file knows more of them.
label_values = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\u2028\u2029\x85"), max_size=12
)
label_names = st.sampled_from(("engine", "model_name", "finished_reason", "a", "_b9"))
numbers = st.one_of(
    st.integers(0, 10**12).map(str),
    st.floats(0, 1e12, allow_nan=False).map(repr),
    st.sampled_from(("NaN", "+Inf", "-Inf", "0x1", "1e3", "-0", "1_0", "")),
)
gaps = st.sampled_from((" ", "\t", "  "))


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@st.composite
def sample_lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from((*GAUGES.values(), *COUNTERS.values(), *OTHERS)))
    labels = draw(st.dictionaries(label_names, label_values, max_size=3))
    inner = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    comma = draw(st.sampled_from(("", ","))) if labels else ""
    bare = not labels and draw(st.booleans())
    braces = "" if bare else f"{{{inner}{comma}}}"
    timestamp = draw(st.sampled_from(("", " 1395066363000")))
    return f"{draw(st.sampled_from(('', ' ')))}{name}{braces}{draw(gaps)}{draw(numbers)}{timestamp}"


@st.composite
def pages(draw: st.DrawFn) -> list[str]:
    comments = st.sampled_from(("", "# a comment", "#", "# HELP vllm:num_requests_running 5"))
    return draw(st.lists(st.one_of(sample_lines(), comments), max_size=12))


def read_by_them(lines: list[str]) -> dict[str, float | None]:
    """Sum by name; None when a value is no count or a line is refused."""
    totals: dict[str, float | None] = {}
    for line in lines:
        try:
            samples = [s for family in text_string_to_metric_families(line + "\n") for s in family.samples]
        except ValueError:
            totals[re.split(r"[\s{]", line.strip())[0]] = None
            continue
        for sample in samples:
            before = totals.get(sample.name, 0.0)
            good = math.isfinite(sample.value) and sample.value >= 0 and before is not None
            totals[sample.name] = before + sample.value if good and before is not None else None
    return totals


@given(pages())
@settings(max_examples=150, deadline=None)
def test_sums_are_the_same(lines: list[str]) -> None:
    ours, theirs = parse("\n".join(lines)), read_by_them(lines)
    for field, name in (GAUGES | COUNTERS).items():
        expected = theirs.get(name)
        assert getattr(ours, field) == (None if expected is None else float(expected)), name


@given(st.dictionaries(label_names, label_values, max_size=4))
@settings(max_examples=200, deadline=None)
def test_labels_are_the_same(labels: dict[str, str]) -> None:
    inner = ",".join(f'{key}="{escaped(value)}"' for key, value in labels.items())
    (family,) = text_string_to_metric_families(f"x{{{inner}}} 1\n")
    assert labels_of(f"{{{inner}}}") == family.samples[0].labels == labels


@given(st.text(max_size=300), st.integers(0, 2000), st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_no_text_makes_it_fail(noise: str, at: int, cut: int) -> None:
    text = page()
    parse(noise)
    parse(text[:at] + noise + text[at + cut :])


@given(st.binary(max_size=200), st.integers(0, 2000))
@settings(max_examples=100, deadline=None)
def test_no_bytes_make_it_fail(noise: bytes, at: int) -> None:
    raw = page().encode()
    try:
        read = parse((raw[:at] + noise + raw[at:]).decode("utf-8", errors="replace"))
    except PageRefusedError:  # pragma: no cover - never at this size
        raise
    for value in (read.running, read.waiting, read.finished, read.prompt_tokens, read.output_tokens):
        assert value is None or 0 <= value < math.inf
