"""What models write, read tolerantly and applied exactly; what cannot be used ends in a sentence, never in an accident."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engineers import UnusableAnswer
from agents.engineers.llm.files import read_files
from agents.engineers.llm.loose_json import NotJson, read, without_thinking
from agents.engineers.llm.plans import KINDS, read_plan
from agents.engineers.llm.verdicts import read_verdict
from agents.state import Candidate
from gpu_runner.contracts import Verdict
from tests.agents.model_answers import BASE, CODE, KERNEL, MODEL, PLANS, VERDICTS, edit, fenced

FAILED = Candidate(id="c1", parent=None, todo="t1", title="x", files={}, sha256="0", verdict=Verdict.INCORRECT)
VERIFIED = FAILED.model_copy(update={"verdict": Verdict.VERIFIED})


def shown(case: tuple[str, str]) -> str:
    return repr(case[0][:30])


def is_sentence(text: str) -> bool:
    return 10 < len(text) < 700 and text[0].isupper() and text.rstrip("\"'`")[-1] in ".,:p"


def test_there_are_two_hundred_bad_answers() -> None:
    assert len({text for text, _ in (*CODE, *PLANS, *VERDICTS)}) >= 200


@pytest.mark.parametrize("case", CODE, ids=shown)
def test_a_bad_program_is_refused_with_a_sentence(case: tuple[str, str]) -> None:
    answer, word = case
    with pytest.raises(UnusableAnswer, match=word or ".") as caught:
        read_files(answer, BASE)
    assert str(caught.value)[0].isupper()
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("case", PLANS, ids=shown)
def test_a_bad_plan_is_refused_with_a_sentence(case: tuple[str, str]) -> None:
    answer, word = case
    with pytest.raises(UnusableAnswer, match=word or ".") as caught:
        read_plan(answer)
    assert is_sentence(str(caught.value))


@pytest.mark.parametrize("case", VERDICTS, ids=shown)
def test_a_bad_verdict_is_refused_with_a_sentence(case: tuple[str, str]) -> None:
    answer, word = case
    with pytest.raises(UnusableAnswer, match=word or ".") as caught:
        read_verdict(answer, FAILED)
    assert is_sentence(str(caught.value))


# ---- JSON

VALUE = {"todos": [{"title": "Fuse it", "kind": "fuse"}], "note": "a // b # c"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(VALUE),
        json.dumps(VALUE, indent=2),
        f"Here you are:\n```json\n{json.dumps(VALUE)}\n```\nGood luck!",
        f"As in [1] and {{see below}}:\n{json.dumps(VALUE)}",
        f"<think>{{\"todos\": []}}</think>{json.dumps(VALUE)}",
        '{"todos": [{"title": "Fuse it", "kind": "fuse",},], "note": "a // b # c",}',
        '{ // why\n"todos": [ /* one */ {"title": "Fuse it", # best\n"kind": "fuse"}], "note": "a // b # c"}',
        "{'todos': [{'title': 'Fuse it', 'kind': 'fuse'}], 'note': 'a // b # c'}",
        '{todos: [{title: "Fuse it", kind: "fuse"}], note: "a // b # c"}',
        "```\n{'todos': [{'title': 'Fuse it', 'kind': 'fuse'}], \"note\": 'a // b # c', }\n```",
    ],
)  # fmt: skip
def test_json_is_read_as_models_write_it(text: str) -> None:
    assert read(text) == VALUE


def test_words_of_python_and_breaks_in_strings_are_read() -> None:
    assert read("{'a': True, 'b': None, 'c': NaN, \"d\": \"two\nlines\", 'e': 'it\\'s \"so\"'}") == {
        "a": True, "b": None, "c": None, "d": "two\nlines", "e": 'it\'s "so"',
    }  # fmt: skip


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_whatever_is_json_is_read_as_itself(value: dict[str, object]) -> None:
    assert read(json.dumps(value)) == value
    assert read(f"```json\n{json.dumps(value, indent=1)}\n```") == value


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("{}[]\"',:#/*\\ \n`~ab1-.<>=é"), max_size=200))
def test_no_text_does_more_than_refuse(text: str) -> None:
    for reader in (read, read_plan, lambda t: read_verdict(t, FAILED), lambda t: read_files(t, BASE)):
        with suppress(UnusableAnswer, NotJson):
            reader(text)
    assert len(without_thinking(text)) <= len(text)


# ---- plans and verdicts


def test_a_plan_is_taken_as_far_as_it_is_one() -> None:
    answer = {
        "note": "Memory-bound.\nTwo items.",
        "todos": [
            {"title": " Fuse  the norm ", "kind": "FUSE", "why": "one pass", "ops": ["aten.mul", 3],
             "rows": ["aten::mul", "made up"], "constraints": "keep the sum", "predicted": "1.8x",
             "id": "evil", "status": "done", "measured": 99},
            {"name": "Tile", "kind": "magic", "predicted": float("inf")},
            "Try channels last",
            7,
        ],
    }  # fmt: skip
    todos, note = read_plan(json.dumps(answer), rows={"aten::mul"})
    assert note == "Memory-bound. Two items."
    first, second, third = todos
    assert (first.id, first.status, first.measured) == ("", "open", None)
    assert (first.title, first.kind, first.ops, first.rows, first.predicted) == (
        "Fuse the norm", "fuse", ("aten.mul",), ("aten::mul",), 1.8,
    )  # fmt: skip
    assert first.constraints == ("keep the sum",)
    assert (second.title, second.kind, second.predicted) == ("Tile", "other", None)
    assert third.title == "Try channels last"


@pytest.mark.parametrize("text", ['{"todos": []}', "[]", 'Nothing is left.\n```json\n{"plan": []}\n```'])
def test_a_plan_may_be_empty(text: str) -> None:
    assert read_plan(text)[0] == ()


def test_a_plan_has_a_dozen_items_at_most() -> None:
    todos, _ = read_plan(json.dumps([{"title": f"item {i}" * 40, "kind": KINDS[i % 8]} for i in range(300)]))
    assert len(todos) == 12
    assert all(len(todo.title) <= 200 for todo in todos)


@pytest.mark.parametrize(
    ("said", "candidate", "route"),
    [
        ("retry", FAILED, "retry"), ("optimise", FAILED, "retry"), ("advance", FAILED, "advance"),
        ("REPLAN", FAILED, "replan"), ("retry", VERIFIED, "optimise"), ("Optimize", VERIFIED, "optimise"),
        ("next", VERIFIED, "advance"), ("stop", VERIFIED, "stop"),
    ],
)  # fmt: skip
def test_a_route_goes_with_what_was_measured(said: str, candidate: Candidate, route: str) -> None:
    text = json.dumps(
        {"route": said, "bottleneck": "memory", "evidence": ["80 %"], "suggestions": "vectorise", "sentence": "So."}
    )
    decision = read_verdict(text, candidate)
    assert decision.route == route
    assert (decision.candidate, decision.evidence, decision.suggestions) == ("c1", ("80 %",), ("vectorise",))


# ---- programs

OTHER = MODEL.replace("relu", "gelu")


@pytest.mark.parametrize(
    "answer",
    [
        fenced(OTHER, "python model_new.py"),
        fenced(OTHER, "python:model_new.py"),
        fenced(OTHER, 'python title="model_new.py"'),
        f"Here:\n\n### `model_new.py`\n\n{fenced(OTHER)}",
        f"**model_new.py**:\n{fenced(OTHER)}",
        f"File: ./model_new.py\n{fenced(OTHER)}",
        edit("model_new.py", "torch.relu(x)", "torch.gelu(x)"),
        fenced(edit("", "torch.relu(x)", "torch.gelu(x)").lstrip(), "python model_new.py"),
        fenced(edit("model_new.py", "torch.relu(x)", "torch.gelu(x)"), "diff"),
    ],
)  # fmt: skip
def test_whole_files_and_edits_are_applied_and_the_rest_stays(answer: str) -> None:
    files, _ = read_files(answer, BASE)
    assert files.files == {"model_new.py": OTHER, "kernels/k.cpp": KERNEL}


def test_files_come_and_go() -> None:
    answer = f"DELETE kernels/k.cpp\n\n{fenced(OTHER, 'python model_new.py')}{fenced(KERNEL, 'cpp gelu.cpp')}"
    answer += fenced('flags = ["-O3"]\n', "toml candidate.toml")
    files, _ = read_files(answer, BASE)
    assert set(files.files) == {"model_new.py", "kernels/gelu.cpp", "candidate.toml"}
    assert files.manifest.flags == ("-O3",)


INLINE = "from torch.utils.cpp_extension import load_inline\n" + MODEL + '# source: """ void run() {} """\n'


@pytest.mark.parametrize(
    "answer",
    [
        fenced(INLINE), fenced(INLINE, ""), "A sketch:\n" + fenced("x = 1\n") + fenced(INLINE), INLINE,
        f"<think>```python\nclass ModelNew: ...\n```</think>\n{fenced(INLINE)}", fenced(MODEL) + fenced(INLINE),
        fenced(INLINE, "python solution").replace("\n", "\r\n"), "~~~python\n" + INLINE + "~~~\n",
    ],
)  # fmt: skip
def test_one_block_with_the_class_is_a_program_of_its_own(answer: str) -> None:
    files, _ = read_files(answer, BASE)
    assert files.files == {"model_new.py": INLINE}
    assert read_files(answer, {})[0] == files


def test_a_block_that_loads_our_library_keeps_the_kernels() -> None:
    program = MODEL.replace("import torch\n", 'import torch\nlibrary = "libkernels.so"\n')
    assert set(read_files(fenced(program), BASE)[0].files) == {"model_new.py", "kernels/k.cpp"}


def test_the_first_words_of_prose_are_the_note() -> None:
    assert (
        read_files(f"## One pass instead of two\n\n{fenced(OTHER, 'python model_new.py')}", BASE)[1]
        == "One pass instead of two"
    )


source_text = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\x00"), max_size=120)


@settings(max_examples=150, deadline=None)
@given(source_text, source_text)
def test_an_edit_changes_what_it_names_and_nothing_else(before: str, after: str) -> None:
    text = f"{before}\nMARK = 1\n{after}\n".replace("MARK = 1\n", "", before.count("MARK = 1"))
    if text.count("MARK = 1") != 1:
        return
    base = {**BASE, "kernels/k.h": text}
    files, _ = read_files(edit("kernels/k.h", "MARK = 1", "MARK = 2"), base)
    assert files.files == {**base, "kernels/k.h": text.replace("MARK = 1", "MARK = 2")}
