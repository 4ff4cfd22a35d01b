"""Writes the gallery's tables in docs/verification.md from gpu_runner/hacks/results/*.json.

Usage: python tools/gallery_docs.py [--check]. With --check nothing is written; exit status 1 when a table is another one.
A kind of device without a record keeps what stands there.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_runner.hacks.gallery import default_folder, read  # noqa: E402
from gpu_runner.hacks.record import KINDS, read_record, recorded  # noqa: E402
from gpu_runner.hacks.table import page  # noqa: E402

DOCS = ROOT / "docs" / "verification.md"


def written(text: str) -> str:
    """The document with every table as its record has it."""
    for kind in KINDS:
        record = read_record(recorded(kind))
        if record is None:
            continue
        table = page(record, len(read(default_folder(), kind)))
        begin, end = f"<!-- gallery {kind} -->", f"<!-- end of gallery {kind} -->"
        block = re.compile(f"{begin}.*?{end}", re.S)
        if not block.search(text):
            raise SystemExit(f"{DOCS} has no place for the table of {kind}: put {begin} and {end} there.")
        fresh = f"{begin}\n\n{table}\n\n{end}"
        text = block.sub(lambda _, fresh=fresh: fresh, text)
    return text


def main() -> int:
    before = DOCS.read_text(encoding="utf-8")
    after = written(before)
    if before == after:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{DOCS} shows other results than gpu_runner/hacks/results has; run `make gallery`.", file=sys.stderr)
        return 1
    DOCS.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
