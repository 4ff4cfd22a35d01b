// The split products in the forms that bench/gpu_gemm.py compares, with one simple functor.
#include "attention_half.cuh"

namespace {
struct Finish {
    const float* bias;
    float* out;
    long columns;
    template <int W> __device__ __forceinline__ void operator()(long row, long column, const float (&sums)[W]) const {
        float result[W];
#pragma unroll
        for (int lane = 0; lane < W; ++lane) result[lane] = sums[lane] + bias[column + lane];
        tf32::put(out + row * columns + column, result);
    }
};

}  // namespace

// What a call multiplies, in this order of numbers. Not in the namespace: what takes it would not leave the library.
struct Sizes {
    long outer, inner, m, n, k, a_lead, a_outer, a_inner, b_lead, b_outer, b_inner;
    split::Batch batch() const { return {outer, inner}; }
    tf32::Operand left(const float* data) const { return {data, m, a_lead, a_outer, a_inner}; }
    tf32::Operand right(const float* data) const { return {data, n, b_lead, b_outer, b_inner}; }
    long floats() const {
        return half_split::workspace_floats(left(nullptr), batch(), k) + half_split::workspace_floats(right(nullptr), batch(), k);
    }
};

#define ARGUMENTS const float *a, const float *b, const float *bias, float *out, float *space, const Sizes &s, cudaStream_t stream
#define HALF(NAME, A, B, COLUMNS, PARTS)                                                                                     \
    extern "C" int half_##NAME##_##COLUMNS##_##PARTS(ARGUMENTS) {                                                            \
        return half_split::launch<A, B, COLUMNS, PARTS>(s.left(a), s.right(b), s.batch(), s.k, space, Finish{bias, out, s.n}, stream); \
    }
#define TF32(NAME, A, B)                                                                                                     \
    extern "C" int tf32_##NAME(ARGUMENTS) {                                                                                  \
        return tf32::launch<A, B>(s.left(a), s.right(b), s.batch(), s.k, nullptr, Finish{bias, out, s.n}, stream);           \
    }
HALF(nt, true, true, 128, 1)
HALF(nt, true, true, 64, 1)
HALF(nn, true, false, 64, 1)
#ifdef ALL_FORMS
HALF(nn, true, false, 128, 1)
HALF(nt, true, true, 128, 2)
HALF(nt, true, true, 64, 2)
HALF(nt, true, true, 128, 4)
HALF(nt, true, true, 64, 4)
HALF(tn, false, false, 128, 1)
HALF(tt, false, true, 64, 2)
TF32(nt, true, true)
TF32(nn, true, false)
TF32(tn, false, false)
TF32(tt, false, true)

// The parts of half_nt and half_nn, to see where the time goes.
extern "C" int pack_left(ARGUMENTS) {
    half_split::pack<true>(s.left(a), s.batch(), s.k, half_split::in_workspace(space + half_split::FLAG_FLOATS, s.left(a), s.batch(), s.k),
                           reinterpret_cast<int*>(space), stream);
    return int(cudaPeekAtLastError());
}
template <bool ALONG_K> static int pack_right(ARGUMENTS) {
    float* at = space + half_split::FLAG_FLOATS + half_split::workspace_floats(s.left(a), s.batch(), s.k);
    half_split::pack<ALONG_K>(s.right(b), s.batch(), s.k, half_split::in_workspace(at, s.right(b), s.batch(), s.k),
                              reinterpret_cast<int*>(space), stream);
    return int(cudaPeekAtLastError());
}
extern "C" int pack_right_nt(ARGUMENTS) { return pack_right<true>(a, b, bias, out, space, s, stream); }
extern "C" int pack_right_nn(ARGUMENTS) { return pack_right<false>(a, b, bias, out, space, s, stream); }
#define ONLY_PRODUCT(COLUMNS)                                                                                                \
    extern "C" int only_product_##COLUMNS(ARGUMENTS) {                                                                       \
        float* left = space + half_split::FLAG_FLOATS;                                                                       \
        float* right = left + half_split::workspace_floats(s.left(a), s.batch(), s.k);                                       \
        half_split::start<COLUMNS>(half_split::in_workspace(left, s.left(a), s.batch(), s.k),                                \
                                   half_split::in_workspace(right, s.right(b), s.batch(), s.k), s.batch(), 1, s.m, s.n, s.k, \
                                   reinterpret_cast<const int*>(space), Finish{bias, out, s.n}, stream);                     \
        return int(cudaPeekAtLastError());                                                                                   \
    }
ONLY_PRODUCT(128)
ONLY_PRODUCT(64)
#endif

#ifdef ALL_FORMS
namespace {
struct Scores {
    static constexpr bool EMPTY_IS_ZERO = true;
    float scale;
    bool causal;
    struct Row {
        float scale;
        int last;
        __device__ __forceinline__ float operator()(int key, float sum) const { return key > last ? -INFINITY : sum * scale; }
    };
    __device__ __forceinline__ Row row(int, int query) const { return {scale, causal ? query : 1 << 30}; }
};
}  // namespace

// Queries are the left operand and keys the right one; values lie as keys do, `bias` is what they are.
static int attention(ARGUMENTS, bool causal) {
    const tf32::Operand values{bias, s.k, s.b_lead, s.b_outer, s.b_inner};
    return half_split::attention::launch<true, true, false>(s.left(a), s.right(b), values, s.batch(), int(s.k), causal, space,
                                                            Scores{0.125f, causal}, {out, s.inner * s.m * s.k, s.m * s.k, s.k}, stream);
}
extern "C" int attention_all(ARGUMENTS) { return attention(a, b, bias, out, space, s, stream, false); }
extern "C" int attention_causal(ARGUMENTS) { return attention(a, b, bias, out, space, s, stream, true); }
extern "C" long attention_workspace(const Sizes& s) {
    const tf32::Operand values{nullptr, s.k, s.b_lead, s.b_outer, s.b_inner};
    return half_split::FLAG_FLOATS + s.floats() + half_split::workspace_floats(values, s.batch(), s.n);
}
#endif

// Floats of a workspace for up to four parts.
extern "C" long workspace(const Sizes& s) { return half_split::FLAG_FLOATS + s.floats() + 4 * s.outer * s.inner * s.m * s.n; }
