"""Names out of traces."""

from __future__ import annotations

import pytest

from gpu_runner.profile.names import MAX_NAME, clean, key, short
from gpu_runner.profile.origin import origin
from gpu_runner.profile.reading import signature

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &,"
    " at::native::GeluType)::[lambda() (instance 2)]::operator ()() const::[lambda(float) (instance 1)],"
    " std::array<char *, (unsigned long)2>>(int, T2, T3)"
)
NORM = "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2, const T1 *)"
XMMA = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__5x_cublas"
)


@pytest.mark.parametrize(
    ("name", "wanted_key", "wanted_short"),
    [
        (ELEMENTWISE, "at::native::vectorized_elementwise_kernel", "vectorized_elementwise_kernel · Gelu"),
        (NORM, "at::native::vectorized_layer_norm_kernel", "vectorized_layer_norm_kernel"),
        (XMMA, XMMA, "gemm f32 64x64x8"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(P)", "cutlass::Kernel2",
         "cutlass_80_simt_sgemm_128x128_8x4_nn_align1"),
        ("fused_add(float*, float const*, int)", "fused_add", "fused_add"),
        ("void (anonymous namespace)::k<(bool)(1 < 2)>(int)", "k", "k"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("aten::add_", "aten::add_", "add_"),
        ("cudaMemcpyAsync_v3020_ptsz", "cudaMemcpyAsync", "cudaMemcpyAsync"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD", "Memcpy HtoD"),
        ("_ZN2at6native12_GLOBAL__N_13fooIfEEvPT_i", "at::native::foo", "foo"),
        ("a<b<c<d", "a", "a"), ("<<<<", "<<<<", "<<<<"), ("((((", "((((", "((((" ), ("", "unnamed", "unnamed"),
    ],
)  # fmt: skip
def test_keys_and_labels(name, wanted_key, wanted_short):
    full = clean(name)
    assert (key(full), short(full)) == (wanted_key, wanted_short)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("/home/ada/my project/net.py(12): forward", "net.py(12): forward"),
        ("k [/usr/src/k.cu]", "k [k.cu]"),
        ("C:\\Users\\ada\\net.py", "net.py"),
        ("\\\\server\\share\\net.py", "net.py"),
        ("L1/TEX and a/b", "L1/TEX and a/b"),
        ("a\x00b\x1b[31m\u202ec", "a b [31m c"),
        ("x" * 5000, "x" * (MAX_NAME - 1) + "…"),
        ("\ud800", "unnamed"),
    ],
)
def test_what_is_kept_of_a_name(name, wanted):
    assert clean(name) == wanted


@pytest.mark.parametrize(
    "text", ["<" * 100_000, "(" * 100_000, "a/" * 100_000, "/a" * 100_000, "_ZN" + "1a" * 50_000, "<(" * 50_000 + ")>"]
)
def test_hostile_names_cost_little(text):
    full = clean(text)
    assert len(full) <= MAX_NAME
    assert key(full)
    assert len(short(full)) <= 80


@pytest.mark.parametrize(
    ("name", "path", "wanted"),
    [
        (ELEMENTWISE, (), "torch"), (XMMA, (), "library"), ("void cutlass::Kernel2<x>(P)", ("own:f",), "library"),
        ("triton_red_0", (), "compiled"), ("fused(float*)", ("step", "own:fused"), "own"), ("fused(float*)", (), "unknown"),
    ],
)  # fmt: skip
def test_whose_kernel_it_is(name, path, wanted):
    assert origin(name, path) == wanted


def test_one_kernel_as_two_tools_write_it():
    """nsys keeps the casts of template arguments, ncu drops them and inner namespaces."""
    other = (
        "void at::vectorized_elementwise_kernel<4, at::GeluCUDAKernelImpl(at::TensorIteratorBase &, at::GeluType)::[lambda()"
        " (instance 2)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, 2>>(int, T2, T3)"
    )
    assert signature(ELEMENTWISE) == signature(other)
    assert signature("k<4>(int)") != signature("k<8>(int)")


FUNCTOR = (
    "at::native::ReduceOp<float, at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator()"
    "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, float, 4, 4>"
)
SUM = f"void at::native::reduce_kernel<512, 1, {FUNCTOR} >({FUNCTOR})"
SUM_OF_NSYS = (
    "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float>::operator ()(at::TensorIterator &)::[lambda(float, float) (instance 1)]>, "
    "unsigned int, float, (int)4, (int)4>>(T3)"
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (SUM, SUM_OF_NSYS),
        (
            "void k<std::array<char*, 2ul> >(int, std::array<char*, 2ul>)",
            "void k<std::array<char *, (unsigned long)2>>(int, T1)",
        ),
        ("fused(float*, int)", "fused(float *, int)"),
        ("fused", "fused(float *, int)"),
    ],
)
def test_one_kernel_as_torch_and_nsys_write_it(one, other):
    """Both names of the first pair are of one launch, seen by both (torch 2.11, nsys 2025.3.1)."""
    assert signature(one) == signature(other)


def test_other_kernels_keep_other_signatures():
    names = [SUM, SUM.replace("512", "256"), SUM.replace("#1", "#2"), "k2ul(int)", "k2(int)", "f((x)1)", "(int)"]
    assert len({signature(name) for name in names}) == len(names)
