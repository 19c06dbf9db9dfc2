"""A file's difference, in the form in which views show it."""

from __future__ import annotations

from jupyter_agent.core.diffs import FileDiff, brief, diff_output, file_diff
from jupyter_agent.files.diff import compare

OLD = "".join(f"line {number}\n" for number in range(1, 41))
NEW = OLD.replace("line 2\n", "line two\n").replace("line 38\n", "").replace("line 40\n", "end")


def test_unchanged_stretches_are_counted() -> None:
    """Added, removed and unchanged lines keep their signs; a remark stands for what is left out."""
    diff = file_diff(compare(OLD, NEW, "sub/a.txt").text)
    assert (diff.title, diff.added, diff.removed) == ("sub/a.txt", 2, 3)
    assert diff.lines[:4] == (" line 1", "-line 2", "+line two", " line 3")
    assert "@29 unchanged lines" in diff.lines
    assert diff.lines[-2:] == ("+end", "@No newline at end of file")
    assert diff.counts == "+2 −3"


def test_the_counts_of_a_shortened_diff() -> None:
    """Where lines are left out, the counts are those of all lines."""
    found = compare(None, "x\n" * 1000, "a.txt", 10)
    output = diff_output(found.text, found.added, found.removed)
    diff = file_diff(found.text, output)
    assert (diff.title, diff.counts) == ("a.txt", "+1,000")
    assert diff.lines[-1] == "@991 more lines of the diff left out"


def test_in_a_few_words() -> None:
    """One file has its counts, several have their names, too; a remark has no counts."""
    one, other = FileDiff("a", 9, 3, ()), FileDiff("b", 0, 1_000, ())
    assert [brief([]), brief([one]), brief([one, other])] == ["", "+9 −3", "a +9 −3, b −1,000"]
    assert brief([FileDiff("c", 0, 0, ("@a binary file",))]) == ""


def test_text_that_is_no_diff() -> None:
    """Nothing of a text of another form is lost, and no sign is invented."""
    assert file_diff("hm\n+a\n[b]") == FileDiff("", 1, 0, ("@hm", "+a", "@b"))
