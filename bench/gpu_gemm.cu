// The split products in all their forms with one simple functor, for bench/gpu_gemm.py.
#include "gemm_half.cuh"

namespace {
struct Finish {
    const float* bias;
    float* out;
    long columns;
    template <int W> __device__ __forceinline__ void operator()(long row, long column, const float (&sums)[W]) const {
#pragma unroll
        for (int lane = 0; lane < W; ++lane) out[row * columns + column + lane] = sums[lane] + bias[column + lane];
    }
};

template <bool ALONG_K> tf32::Operand operand(const float* data, long rows, long depth) { return {data, rows, ALONG_K ? depth : rows}; }
}  // namespace

extern "C" long workspace(long m, long n, long k) {
    return half_split::FLAG_FLOATS + half_split::workspace_floats(m, k) + half_split::workspace_floats(n, k);
}

#define FORM(NAME, A, B)                                                                                                             \
    extern "C" int half_##NAME(const float* a, const float* b, const float* bias, float* out, float* space, long m, long n, long k, \
                               cudaStream_t stream) {                                                                                \
        return half_split::launch<A, B>(operand<A>(a, m, k), operand<B>(b, n, k), k, space, Finish{bias, out, n}, stream);           \
    }                                                                                                                                \
    extern "C" int tf32_##NAME(const float* a, const float* b, const float* bias, float* out, float*, long m, long n, long k,       \
                               cudaStream_t stream) {                                                                                \
        return tf32::launch<A, B>(operand<A>(a, m, k), operand<B>(b, n, k), k, nullptr, Finish{bias, out, n}, stream);               \
    }
FORM(nt, true, true)
#ifdef ALL_FORMS
FORM(nn, true, false)
FORM(tn, false, false)
FORM(tt, false, true)
#endif

// The parts of half_nt, to see where the time goes.
extern "C" int pack_left(const float* a, const float*, const float*, float*, float* space, long m, long, long k, cudaStream_t stream) {
    half_split::pack<true>(operand<true>(a, m, k), k, half_split::in_workspace(space + half_split::FLAG_FLOATS, m, k),
                           reinterpret_cast<int*>(space), stream);
    return int(cudaPeekAtLastError());
}
extern "C" int only_product(const float*, const float*, const float* bias, float* out, float* space, long m, long n, long k,
                            cudaStream_t stream) {
    float* left = space + half_split::FLAG_FLOATS;
    half_split::start(half_split::in_workspace(left, m, k), half_split::in_workspace(left + half_split::workspace_floats(m, k), n, k), m, n,
                      k, reinterpret_cast<const int*>(space), Finish{bias, out, n}, stream);
    return int(cudaPeekAtLastError());
}
