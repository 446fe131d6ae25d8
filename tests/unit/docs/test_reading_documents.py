"""How documents are read: what counts as a command, a link, a block, and what a story does when a command fails."""

from pathlib import Path

import pytest

from tests.support import documents
from tests.support.documents import Block, anchors, blocks, code_words, commands, links

FILE = Path("a.md")


def block(text: str) -> Block:
    return Block(FILE, 1, "console", {}, text)


def test_lines_with_a_dollar_are_commands_and_others_are_output() -> None:
    assert commands(block("$ one\noutput\n$ two \\\n    --three\n$ four\n")) == [
        "one",
        "two \\\n    --three",
        "four",
    ]


def test_a_block_without_commands_is_an_error() -> None:
    with pytest.raises(ValueError, match="no line begins with"):
        commands(block("one\n"))


def test_blocks_carry_language_labels_and_line() -> None:
    (found,) = blocks(FILE, "text\n\n```yaml part-of=tier\na: 1\n```\n")
    assert (found.language, found.labels, found.line, found.text) == (
        "yaml",
        {"part-of": "tier"},
        3,
        "a: 1\n",
    )


def test_a_label_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="no key=value"):
        blocks(FILE, "```yaml tier\na: 1\n```\n")


def test_links_images_and_code_are_found_in_tables_but_not_in_blocks_or_comments() -> None:
    text = "[a](b.md) ![c](d.svg)\n\n| x |\n|---|\n| [e](f.md) `g/h` |\n\n```\n[no](no.md)\n```\n\n<!-- ![no](no.svg) -->\n"
    assert links(text) == ["b.md", "d.svg", "f.md"]
    assert code_words(text) == ["g/h"]


def test_anchors_are_those_of_headings() -> None:
    assert anchors("# Who owns, which `field`?\n\ntext\n") == {"who-owns-which-field"}


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("```console test=s\n$ echo $WHO > said\n$ cat said\n```\n")
    (tmp_path / "docs/b.md").write_text("```console test=bad\n$ false | cat\n$ echo never\n```\n")
    found = {name: documents.story(name, tmp_path) for name in ("s", "bad")}
    monkeypatch.setattr(documents, "story", found.__getitem__)
    return tmp_path


def test_a_story_runs_its_commands_in_order_in_the_given_environment(told: Path) -> None:
    assert documents.run_story("s", told, {"WHO": "me", "PATH": "/usr/bin:/bin"}) == "me\n"
    assert documents.run_story("s", told, {"PATH": "/usr/bin:/bin"}, {"$WHO": "you"}) == "you\n"


def test_a_story_ends_at_the_first_command_that_fails(told: Path) -> None:
    with pytest.raises(AssertionError, match=r"b\.md:1: false \| cat"):
        documents.run_story("bad", told, {"PATH": "/usr/bin:/bin"})


def test_a_word_to_replace_that_is_not_there_is_an_error(told: Path) -> None:
    with pytest.raises(LookupError, match="gone"):
        documents.run_story("s", told, {"WHO": "me", "PATH": "/usr/bin:/bin"}, {"gone": "x"})


def test_a_story_that_nobody_tells_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    with pytest.raises(LookupError, match="test=none"):
        documents.story("none", tmp_path)
