"""What differs between a candidate for the CPU and one for a GPU, as text: files, flags, the loader and how a kernel is called."""

from __future__ import annotations

from dataclasses import dataclass

_LOADER = '''
def _load_kernels() -> ctypes.CDLL:
    """The library that was built beside this file; without one, the sources in kernels/ are compiled on first use."""
    here = Path(__file__).resolve().parent
    library = here / "libkernels.so"
    if not library.exists():
        library = Path(tempfile.mkdtemp(prefix="kernels-")) / "libkernels.so"
{command}
        sources = sorted(str(path) for path in (here / "kernels").glob("*{suffix}"))
        subprocess.run([{compiler}, *flags, "-shared", {position}, "-o", str(library), *sources], check=True)
    return ctypes.CDLL(str(library))


_kernels = _load_kernels()
'''

_CPU_COMMAND = '        flags = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]'
_CUDA_COMMAND = """\
        major, minor = torch.cuda.get_device_capability()
        specific = "a" if major >= 9 else ""
        flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr", f"-arch=sm_{major}{minor}{specific}"]"""

# A launcher answers with the runtime's error code, which ctypes hands to this.
_CHECKED = '''

def _checked(code: int) -> None:
    """Raises when a kernel could not be started."""
    if code != 0:
        raise RuntimeError(f"a kernel could not be started: CUDA error {code}")
'''


@dataclass(frozen=True)
class Platform:
    """`suffix` of kernel sources; `flags` of the manifest with the comment above them; `resident`: a tensor's test that it lies
    there; `on`: the argument that makes a tensor lie there; `stream`: the last argument of every kernel; `answer`: its restype."""

    suffix: str
    manifest: str
    loader: str
    resident: str
    on: str = ""
    stream: str = ""
    answer: str = "None"


CPU = Platform(
    ".cpp",
    "# -ffp-contract=fast lets the compiler use fused multiply-adds, which round once instead of twice.\n"
    'flags = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]\n',
    _LOADER.format(command=_CPU_COMMAND, suffix=".cpp", compiler='"c++"', position='"-fPIC"'),
    "is_cpu",
)
CUDA = Platform(
    ".cu",
    'flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr"]\n',
    _LOADER.format(command=_CUDA_COMMAND, suffix=".cu", compiler='"nvcc"', position='"-Xcompiler", "-fPIC"') + _CHECKED,
    "is_cuda",
    ", device=device",
    "torch.cuda.current_stream().cuda_stream",
    "_checked",
)


def platform_of(target: str) -> Platform:
    """The platform of a target's word: `cpu`, or an architecture such as `sm_90`."""
    return CPU if target == "cpu" else CUDA
