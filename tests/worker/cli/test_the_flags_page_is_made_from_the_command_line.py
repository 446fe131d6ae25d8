"""The reference of flags is what the command line says of itself."""

import pytest

from dev.worker import flags_page


def test_the_page_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert flags_page.main(["--check"]) == 0, capsys.readouterr().err


def test_every_flag_says_what_it_does() -> None:
    rows = [line for line in flags_page.page().splitlines() if line.startswith("| `--")]
    assert len(rows) > 20
    for row in rows:
        flag, values, default, says = (cell.strip() for cell in row.strip("|").split(" | "))
        assert flag.startswith("`--")
        assert values
        assert default
        assert len(says) > 10, flag
