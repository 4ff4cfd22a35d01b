"""Rows of `verl_skill1` and `verl_skill2` with what verl's tool agent hands to the tool of each trajectory."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def with_tool(rows: Iterable[dict[str, Any]], tool: str = "verify") -> Iterator[dict[str, Any]]:
    """The rows, each with its ground truth, parent and feedback as the tool's own; what is trained on stays the same."""
    for row in rows:
        info = row["extra_info"]
        own = {
            "ground_truth": row["reward_model"]["ground_truth"], "parent_code": info.get("parent_code") or "",
            "feedback": info.get("feedback") or "",
        }  # fmt: skip
        kwargs = {tool: {"create_kwargs": {"truth": json.dumps(own, sort_keys=True)}}}
        yield row | {"agent_name": "tool_agent", "extra_info": info | {"need_tools_kwargs": True, "tools_kwargs": kwargs}}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="an exported train.jsonl of verl_skill1 or verl_skill2")
    parser.add_argument("out", type=Path, help="where the rows with the tool go")


def run(given: argparse.Namespace) -> int:
    """Give rows of a release the tool that verl's agent calls. Exit status: 0 done, 2 what is no such file."""
    try:
        lines = given.file.read_text(encoding="utf-8").splitlines()
        rows = list(with_tool(json.loads(line) for line in lines if line.strip()))
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"The rows of {given.file} cannot be taken: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(f"{given.out}: {len(rows)} rows", file=sys.stderr)
    return 0
