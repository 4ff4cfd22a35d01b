// Reductions across the threads that share a row: a warp by shuffles, a block by shuffles and shared memory. Every thread gets the
// result, and always the same one: the order is fixed.
#pragma once
#include <limits>

namespace reduce {

struct Sum {
    static __device__ __forceinline__ double combine(double a, double b) { return a + b; }
};
struct Top {  // may lose NaN
    static __device__ __forceinline__ float combine(float a, float b) { return b > a ? b : a; }
};
struct Max {
    static __device__ __forceinline__ float combine(float a, float b) { return b > a || b != b ? b : a; }
};
struct Min {
    static __device__ __forceinline__ float combine(float a, float b) { return b < a || b != b ? b : a; }
};

// THREADS: 32, or a multiple of it that is the whole block.
template <class Op, int THREADS, class T>
static __device__ __forceinline__ T across(T value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value = Op::combine(value, __shfl_xor_sync(0xFFFFFFFFu, value, offset));
    if constexpr (THREADS > 32) {
        __shared__ T parts[THREADS / 32];
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
        __syncthreads();
        value = parts[0];
#pragma unroll
        for (int warp = 1; warp < THREADS / 32; ++warp) value = Op::combine(value, parts[warp]);
        __syncthreads();
    }
    return value;
}

}  // namespace reduce
