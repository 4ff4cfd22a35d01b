"""Mutates valid reports and reads them, each in a process with limits: no crash, no hang, no more memory than is allowed.

python tools/fuzz_profiles.py [--seconds 120] [--only nsys kineto ncu details stats] [--seed N] [--keep DIR]

A finding is a file whose reading raised anything but UnreadableProfile, took longer than its deadline, or pushed the process
over its memory; it is kept and its path printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import random
import resource
import sys
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from gpu_runner.profile import Limits, UnreadableProfile, read_profile  # noqa: E402
from gpu_runner.profile.compare import compare  # noqa: E402
from gpu_runner.profile.exports import chrome_trace, speedscope  # noqa: E402
from tests.gpu_runner.profile_files import SAMPLES, busy_trace, nsys_file, nsys_rows  # noqa: E402

MEMORY = 1 << 30
DEADLINE = 20.0
LIMITS = Limits(seconds=5.0)
BATCH = 2000
WORDS = [
    b"1e999", b"-1", b"NaN", b"Infinity", b"null", b"true", b'""', b"[]", b"{}", b"9" * 40, b"0.00000000000000001",
    b"\\ud800",
    b"\xff\xfe", b"\0", b'"traceEvents":', b'"ts":', b'"dur":', b"[" * 300, b'{"a":' * 300, b'"ID"', b",", b'"', b"\n",
    b"==PROF==", b"CREATE VIEW", b"as (1)", b"-9223372036854775808", b"18446744073709551616",
]  # fmt: skip


def seeds(folder: Path) -> dict[str, list[bytes]]:
    """Valid reports by reader, small and real ones."""
    trace = json.dumps(busy_trace()).encode()
    made = [nsys_file(folder / f"made-{version}.sqlite", nsys_rows(), version=version).read_bytes() for version in (2, 3)]
    raw = (SAMPLES / "ncu_raw.csv").read_bytes()
    return {
        "nsys": [*made, (SAMPLES / "nsys.sqlite").read_bytes()],
        "kineto": [trace, gzip.compress(trace), json.dumps(busy_trace()["traceEvents"]).encode()],
        "ncu": [raw, b"\n".join(line[:3000] for line in raw.splitlines())],
        "details": [(SAMPLES / "ncu_details.csv").read_bytes()],
        "stats": [(SAMPLES / "nsys_stats.csv").read_bytes()],
    }


def mutate(data: bytes, random: random.Random) -> bytes:
    """A few changes of one of the usual kinds."""
    out = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4, 16, 64))):
        if not out:
            break
        at = random.randrange(len(out))
        kind = random.randrange(7)
        if kind == 0:
            out[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            out[at : at + random.choice((1, 2, 4, 8))] = random.randbytes(random.choice((1, 2, 4, 8)))
        elif kind == 2:
            word = random.choice(WORDS)
            out[at : at + random.choice((0, len(word)))] = word
        elif kind == 3:
            end = min(len(out), at + random.randrange(1, 2000))
            out[at:at] = out[at:end] * random.choice((1, 1, 3, 50))
        elif kind == 4:
            del out[at : at + random.randrange(1, 2000)]
        elif kind == 5 and random.random() < 0.2:
            del out[at:]
        else:
            digits = [n for n in range(at, min(len(out), at + 200)) if 48 <= out[n] <= 57]
            for n in digits[:3]:
                out[n] = 48 + random.randrange(10)
    return bytes(out[: 8 << 20])


def attempts(reader: str, seed: int, count: int, folder: str, answer: Connection) -> None:
    """Reads `count` mutations; sends (number, what went wrong or "") before and after each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    generator = random.Random(seed)  # noqa: S311
    known = [file.read_bytes() for file in sorted(Path(folder).glob("seed-*"))]
    path = Path(folder) / f"case-{reader}"
    for number in range(count):
        data = mutate(generator.choice(known), generator)
        path.write_bytes(data)
        answer.send((number, None))
        wrong = ""
        try:
            summary = read_profile([path], limits=LIMITS)
            text = json.dumps(summary, allow_nan=False)
            assert len(text) < 16 << 20, f"the summary is {len(text):,} characters long"
            compare(summary, summary)
            speedscope(summary)
            chrome_trace(summary)
        except UnreadableProfile as error:
            wrong = (
                "" if str(error).strip().endswith((".", ".)")) and len(str(error)) < 400 else f"a sentence it is not: {error}"
            )
        except BaseException:
            wrong = traceback.format_exc()
        answer.send((number, wrong))
    answer.close()


def fuzz(reader: str, seconds: float, seed: int, keep: Path) -> tuple[int, int, int]:
    """(files read, findings, largest resident set in MiB)."""
    done = findings = 0
    end = time.monotonic() + seconds
    with TemporaryDirectory() as folder:
        for n, data in enumerate(seeds(Path(folder))[reader]):
            (Path(folder) / f"seed-{n}").write_bytes(data)
        while time.monotonic() < end:
            here, there = multiprocessing.Pipe(duplex=False)
            child = multiprocessing.get_context("spawn").Process(
                target=attempts, args=(reader, seed * 1_000_003 + done, BATCH, folder, there)
            )
            child.start()
            there.close()
            try:
                while True:
                    if not here.poll(DEADLINE):
                        wrong = f"no answer within {DEADLINE:g} s"
                    else:
                        number, said = here.recv()
                        if said is None:
                            continue
                        done += 1
                        wrong = said
                    if wrong:
                        findings += 1
                        place = keep / f"{reader}-{seed}-{done}"
                        keep.mkdir(parents=True, exist_ok=True)
                        place.write_bytes((Path(folder) / f"case-{reader}").read_bytes())
                        print(f"{place}: {wrong.strip()}", flush=True)
                        if wrong.startswith("no answer"):
                            child.kill()
                            break
                    if number == BATCH - 1 or time.monotonic() > end:
                        break
            except EOFError:
                child.join()
                findings += 1
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{reader}-{seed}-{done}").write_bytes((Path(folder) / f"case-{reader}").read_bytes())
                print(f"{reader}: the process ended with {child.exitcode}", flush=True)
            child.kill()
            child.join()
    return done, findings, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    readers = ["nsys", "kineto", "ncu", "details", "stats"]
    parser.add_argument("--seconds", type=float, default=120, help="for each reader")
    parser.add_argument("--only", nargs="*", choices=readers, default=readers)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "fuzz")
    args = parser.parse_args()
    total = 0
    for reader in args.only:
        done, findings, memory = fuzz(reader, args.seconds, args.seed, args.keep)
        total += findings
        print(f"{reader:8} {done:7} files, {findings} findings, at most {memory} MiB resident", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
