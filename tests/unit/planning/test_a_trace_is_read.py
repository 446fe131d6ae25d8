"""A trace's columns, units and order: what is known by itself, what must be said, and what is wrong with which line."""

import pytest

from tierwright.planning import trace_rows
from tierwright.planning.trace_records import Problem
from tierwright.planning.trace_rows import Columns, Row, in_order, rows


def read(text: str, columns: Columns = Columns()) -> list[Row | Problem]:  # noqa: B008 - frozen
    return list(rows(text.splitlines(keepends=True), columns))


@pytest.mark.parametrize(
    ("header", "line", "expected"),
    [
        ("arrival_s,input_tokens,output_tokens", "1.5,10,20", (1.5, 10, 20)),
        ("arrival_ms,input_tokens,output_tokens,prefix_hit", "1500,10,20,5", (1.5, 10, 20)),
        ("Timestamp,Model,Request tokens,Response tokens,Log Type", "3,GPT-4,10,20,API", (3.0, 10, 20)),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens",
            "2023-11-16 18:17:03.9799600,4808,10",
            (1700158623.97996, 4808, 10),
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens",
            "2024-05-10 00:00:00.009930+02:00,2162,5",
            (1715292000.00993, 2162, 5),
        ),
        ("arrived_at,num_prefill_tokens,num_decode_tokens", "0,10.0,20.0", (0.0, 10, 20)),
        ("\ufeffarrival, prompt_tokens , completion_tokens", "7, 10 , 20", (7.0, 10, 20)),
    ],
)
def test_public_traces_are_known(header: str, line: str, expected: tuple[float, int, int]) -> None:
    (row,) = read(f"{header}\n{line}\n")
    assert isinstance(row, Row)
    assert row[1:4] == pytest.approx(expected)
    assert row.line == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}',
            (27.482, 6955, 52),
        ),
        (
            '\ufeff{"chat_id": 159, "timestamp": 61114.5, "input_length": 521, "output_length": 132, "type": "text"}',
            (61.1145, 521, 132),
        ),
        ('{"input_tokens": "10", "output_tokens": 20.0, "arrival": "1500"}', (1.5, 10, 20)),
    ],
)
def test_json_lines_are_known_by_their_first_character(text: str, expected: tuple[float, int, int]) -> None:
    found = read(f"\n{text}\n\n{text}\n", Columns(unit="ms"))
    assert [each.line for each in found] == [2, 4]
    for row in found:
        assert isinstance(row, Row)
        assert row[1:4] == pytest.approx(expected)


def test_a_bad_line_of_json_is_told_and_the_others_are_read() -> None:
    first = '{"timestamp": 1, "input_length": 2, "output_length": 3}'
    bad = [
        '{"timestamp": 1,',
        "[1, 2]",
        '{"timestamp": null, "input_length": NaN, "output_length": []}',
        "[" * 200_000,
    ]
    found = read("\n".join([first, *bad, first]) + "\n")
    assert [type(each).__name__ for each in found] == ["Row", *["Problem"] * 4, "Row"]
    words = [each.words for each in found if isinstance(each, Problem)]
    assert words[0].startswith("cannot be read as JSON: ")
    assert words[1] == "is no JSON object; one request per line is expected"
    assert words[2].count("timestamp is missing; a time") == 1
    assert words[2].endswith(
        "input_length is 'nan'; a number of tokens is expected; output_length is missing; a number of tokens is expected"
    )
    assert words[3] == "cannot be read as JSON: nested too deeply"


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read as JSON"), ('{"a": 1}', "has no column for the arrival; it has a")],
)
def test_json_that_begins_with_no_request_ends_there(text: str, words: str) -> None:
    found = read(f"{text}\n{text}\n")
    assert all(isinstance(each, Problem) and each.line == 1 for each in found)
    assert isinstance(found[0], Problem)
    assert words in found[0].words


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (Columns("when", "in", "out"), (2.0, 100, 5, "")),
        (Columns("when", "in", "out", unit="ms"), (0.002, 100, 5, "")),
        (Columns("when", "in", "out", cached="hit"), (2.0, 40, 5, "")),
        (Columns("when", "in", "out", speed="tier"), (2.0, 100, 5, "fast")),
    ],
)
def test_columns_of_ones_own_are_named(columns: Columns, expected: tuple[float, int, int, str]) -> None:
    (row,) = read("tier,when,hit,in,out\nfast,2,60,100,5\n", columns)
    assert isinstance(row, Row)
    assert row[1:] == expected


def test_a_request_computes_and_writes_at_least_one_token() -> None:
    (row,) = read("arrival,input_tokens,output_tokens,hit\n0,512,0,512\n", Columns(cached="hit"))
    assert isinstance(row, Row)
    assert row[1:4] == (0.0, 1, 1)


def test_empty_lines_are_passed_over_and_lines_are_counted_as_an_editor_counts_them() -> None:
    found = read("arrival,input_tokens,output_tokens\n\n1,1,1\n\n\nx,1,1\n")
    assert [each.line for each in found] == [3, 6]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-1,10,10", "arrival is '-1'; a time of zero or more"),
        ("nan,10,10", "arrival is 'nan'"),
        ("inf,10,10", "arrival is 'inf'"),
        ("yesterday,10,10", "arrival is 'yesterday'"),
        (",10,10", "arrival is missing"),
        ("1,-5,10", "input_tokens is '-5'; a number of tokens"),
        ("1,nan,10", "input_tokens is 'nan'"),
        ("1,1.5,10", "input_tokens is '1.5'"),
        ("1,10,many", "output_tokens is 'many'"),
        ("1,10,99999999999", "output_tokens is '99999999999'"),
        ("1,10", "output_tokens is missing"),
    ],
)
def test_a_bad_line_says_what_is_wrong_with_it(line: str, words: str) -> None:
    (problem,) = read(f"arrival,input_tokens,output_tokens\n{line}\n")
    assert isinstance(problem, Problem)
    assert problem.line == 2
    assert problem.words.startswith(words)


def test_all_that_is_wrong_with_a_line_is_said() -> None:
    (problem,) = read("arrival,input_tokens,output_tokens\n-1,x,-2\n")
    assert isinstance(problem, Problem)
    assert [problem.words.count(name) for name in ("arrival", "input_tokens", "output_tokens")] == [1, 1, 1]


@pytest.mark.parametrize(
    ("header", "columns", "flags"),
    [
        ("a,b,c", Columns(), ["--arrival-column", "--input-column", "--output-column"]),
        ("arrival,input_tokens,b", Columns(), ["--output-column"]),
        ("arrival,input_tokens,output_tokens", Columns(arrival="when"), ["--arrival-column"]),
        (
            "arrival,input_tokens,output_tokens",
            Columns(cached="hit", speed="tier"),
            ["--cached-column", "--speed-column"],
        ),
    ],
)
def test_a_missing_column_names_the_flag_and_the_columns_there_are(
    header: str, columns: Columns, flags: list[str]
) -> None:
    problems = read(f"{header}\n1,2,3\n", columns)
    assert [each.words.rpartition("by ")[2] for each in problems if isinstance(each, Problem)] == flags
    assert all(header.replace(",", ", ") in each.words for each in problems if isinstance(each, Problem))


@pytest.mark.parametrize(("mark", "word"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_columns_that_no_comma_separates_are_told_once(mark: str, word: str) -> None:
    (problem,) = read(
        mark.join(["arrival", "input_tokens", "output_tokens"]) + "\n" + mark.join("123") + "\n"
    )
    assert isinstance(problem, Problem)
    assert problem.words.startswith(f"the header's columns are separated by {word}; write commas")


@pytest.mark.parametrize("header", ["\udcff\udcfe\x00a", "PAR1\x15\x04,\x00"])
def test_what_is_no_text_has_no_columns(header: str) -> None:
    (problem,) = read(f"{header}\n1,2,3\n")
    assert isinstance(problem, Problem)
    assert problem.words.startswith("is no UTF-8 text")


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("2026-01-01 00:00:00", "5", "arrival is '5', a number, and the lines before hold dates"),
        (
            "5",
            "2026-01-01 00:00:00",
            "arrival is '2026-01-01 00:00:00', a date, and the lines before hold numbers",
        ),
    ],
)
def test_dates_and_numbers_are_not_of_one_clock(first: str, second: str, words: str) -> None:
    found = read(f"arrival,input_tokens,output_tokens\nx,1,1\n{first},1,1\n{second},1,1\n{first},1,1\n")
    assert [type(each).__name__ for each in found] == ["Problem", "Row", "Problem", "Row"]
    assert isinstance(found[2], Problem)
    assert (found[2].line, found[2].words) == (4, words)


def test_an_empty_file_is_told_apart_from_one_without_requests() -> None:
    (problem,) = read("")
    assert isinstance(problem, Problem)
    assert "empty" in problem.words
    assert read("\n \n") == [problem]
    assert read("arrival,input_tokens,output_tokens\n") == []


def test_what_is_no_csv_is_a_problem_and_no_end() -> None:
    long = "1" * 200_000
    found = read(f"arrival,input_tokens,output_tokens\n1,{long},1\n2,3,4\n")
    assert [type(each).__name__ for each in found] == ["Problem", "Row"]
    (header,) = read(f"{long}\n1,2,3\n")
    assert isinstance(header, Problem)
    assert header.words.startswith("cannot be read as CSV")


def test_lines_before_the_header_may_be_empty() -> None:
    found = read("\n\narrival,input_tokens,output_tokens\n1,2,3\nx,2,3\n")
    assert [each.line for each in found] == [4, 5]


def row(line: int, at: float) -> Row:
    return Row(line, at, 1, 1, "")


def test_rows_that_are_a_little_late_are_sorted_in() -> None:
    found = list(in_order([row(2, 3.0), row(3, 1.0), Problem(4, "x"), row(5, 2.0)]))
    assert [each.line for each in found] == [4, 3, 5, 2]


def test_order_is_made_within_a_bound_and_refused_beyond_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_rows, "MOST_DISORDER", 4)
    shuffled = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]
    found = list(in_order(row(place, float(at)) for place, at in enumerate(shuffled)))
    assert [each.at for each in found if isinstance(each, Row)] == sorted(shuffled)
    late = list(in_order(row(place, float(at)) for place, at in enumerate([*range(5, 15), 0])))
    (problem,) = (each for each in late if isinstance(each, Problem))
    assert problem.line == 10
    assert "sort the file" in problem.words
