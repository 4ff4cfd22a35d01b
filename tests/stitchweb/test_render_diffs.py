"""Diffs show what changed, escaped, numbered, with changed words marked only when few changed."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stitchweb.runs.diffs import candidate_diff, file_diff, source_rows


def text_of(html: str) -> str:
    plain = re.sub(r"</?(?:span|b)(?: class=\"[a-z]+\")?>", "", html)
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#x27;", "'"), ("&amp;", "&")):
        plain = plain.replace(entity, char)
    return plain


def test_lines_are_numbered_on_both_sides() -> None:
    diff = file_diff("a.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n")
    assert [(r.kind, r.old, r.new) for r in diff.rows[1:]] == [("same", 1, 1), ("del", 2, None), ("add", None, 2)]
    assert (diff.added, diff.removed) == (1, 1)


def test_changed_words_are_marked_when_few_changed() -> None:
    diff = file_diff("k.cpp", "__launch_bounds__(256)\n", "__launch_bounds__(256, 3)\n")
    added = next(r for r in diff.rows if r.kind == "add")
    assert '<b class="w">' in added.html
    whole = file_diff("k.cpp", "alpha beta gamma\n", "one two three\n")
    assert all('class="w"' not in r.html for r in whole.rows)


def test_markup_in_a_source_is_text() -> None:
    diff = file_diff("a.py", "", "s = '<script>alert(1)</script>' # <b>\n")
    html = "".join(r.html for r in diff.rows)
    assert "<script" not in html
    assert "&lt;script&gt;" in html


LINES = st.lists(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=30),
    max_size=12,
)


@given(LINES, LINES, st.sampled_from(["a.py", "k.cu", "k.cpp", "candidate.toml", "x"]))
def test_a_diff_loses_no_character_of_either_side(old: list[str], new: list[str], path: str) -> None:
    left, right = "\n".join(old), "\n".join(new)
    diff = file_diff(path, left, right)
    for side, text, kinds in (("old", left, ("same", "del")), ("new", right, ("same", "add"))):
        lines = text.split("\n")
        for row in diff.rows:
            number = getattr(row, side)
            if row.kind in kinds and number is not None:
                assert text_of(row.html) == lines[number - 1]


def test_every_line_of_a_source_is_shown_as_it_is() -> None:
    text = 'def f(x):\n\treturn """a\nb"""  # <é>\n'
    assert [text_of(r.html) for r in source_rows("a.py", text)] == text.split("\n")[:-1]


def test_against_the_reference_only_the_model_has_another_side() -> None:
    diffs = candidate_diff({"model_new.py": "a\n", "kernels/k.cpp": "int x;\n"}, None, "a\nb\n")
    by_path = {d.path: d for d in diffs}
    assert by_path["kernels/k.cpp"].new_file
    assert (by_path["model_new.py"].added, by_path["model_new.py"].removed) == (0, 1)


def test_a_file_that_went_is_shown_as_removed_and_unchanged_ones_come_last() -> None:
    diffs = candidate_diff({"model_new.py": "a\n"}, {"model_new.py": "a\n", "kernels/old.cpp": "int x;\n"}, "")
    assert [(d.path, d.gone) for d in diffs] == [("kernels/old.cpp", True), ("model_new.py", False)]
    assert diffs[1].rows == ()


def test_the_kernel_written_for_the_program_comes_before_the_headers_it_includes() -> None:
    files = {"kernels/fastmath.h": "// shared\n", "kernels/k1_gelu.cpp": "int k;\n", "model_new.py": "x = 1\n"}
    assert [d.path for d in candidate_diff(files, None, "x = 2\n")] == [
        "kernels/k1_gelu.cpp",
        "kernels/fastmath.h",
        "model_new.py",
    ]
