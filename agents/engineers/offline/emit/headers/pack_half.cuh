// Cuts float32 operands into two fp16 terms, after scaling each row by a power of two, and lays them out as wgmma reads them:
// panels of 128 × 64, as split.cuh says. Rows whose numbers differ too widely for fp16 raise the flag `wide`.
#pragma once
#include <cuda_fp16.h>

#include "gemm_tf32.cuh"

namespace half_split {

using split::Batch, split::PANEL_BYTES, split::PANEL_K, split::PANEL_ROWS, split::PLANE_BYTES;
constexpr int PACKERS = 256;

// An operand after `pack`: the panels of its matrices one after the other, and for each row what undoes its scale. Matrix (i, j)
// of a batch is number `outer` · i + `inner` · j; what a batch shares is packed once.
struct Packed {
    unsigned char* panels;
    float* unscale;
    long outer = 0, inner = 0;
};

// Matrix `at` of those that were packed.
__device__ __forceinline__ Packed packed_matrix(const Packed& x, long at, long rows, long k_panels) {
    const long row_panels = split::panels(rows, PANEL_ROWS);
    return {x.panels + at * row_panels * k_panels * PANEL_BYTES, x.unscale + at * row_panels * PANEL_ROWS};
}

__device__ __forceinline__ Packed matrix(const Packed& x, Batch batch, int number, long rows, long k_panels) {
    const int inner = int(batch.inner);
    return packed_matrix(x, number / inner * x.outer + number % inner * x.inner, rows, k_panels);
}

// How many matrices of a batch there are to pack.
inline long matrices(const tf32::Operand& x, Batch batch) { return (x.outer ? batch.outer : 1) * (x.inner ? batch.inner : 1); }

// Workspace in floats for an operand; the flag takes a few more, once.
constexpr long FLAG_FLOATS = 32;
inline long workspace_floats(const tf32::Operand& x, Batch batch, long depth) {
    return matrices(x, batch) * (split::packed_bytes(x.rows, depth) / 4 + split::panels(x.rows, PANEL_ROWS) * PANEL_ROWS);
}
inline Packed in_workspace(float* at, const tf32::Operand& x, Batch batch, long depth) {
    const long inner = x.inner ? 1 : 0, outer = !x.outer ? 0 : x.inner ? batch.inner : 1;
    return {reinterpret_cast<unsigned char*>(at), at + matrices(x, batch) * split::packed_bytes(x.rows, depth) / 4, outer, inner};
}

__device__ __forceinline__ uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

__device__ __forceinline__ uint32_t largest_of(const float (&x)[8], uint32_t largest) {
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = max(largest, magnitude(x[i]));
    return largest;
}

// Eight neighbours along k, cut and written to both planes. How many of them are too small for all their bits comes back.
__device__ __forceinline__ int write_eight(const Packed& to, const float (&x)[8], float scale, long row, long k, long k_panels) {
    __align__(16) __half high[8], low[8];
    int small = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float scaled = x[i] * scale;
        high[i] = __float2half_rn(scaled);
        low[i] = __float2half_rn((scaled - __half2float(high[i])) * split::LOW_SCALE);
        small += scaled != 0.0f && fabsf(scaled) < split::SMALLEST;
    }
    *reinterpret_cast<int4*>(to.panels + split::packed_byte(row, k, k_panels, 0)) = *reinterpret_cast<const int4*>(high);
    *reinterpret_cast<int4*>(to.panels + split::packed_byte(row, k, k_panels, 1)) = *reinterpret_cast<const int4*>(low);
    return small;
}

__device__ __forceinline__ float scale_of(uint32_t largest, const Packed& to, long row, bool writes, int* wide) {
    const int exponent = split::scale_exponent(largest);
    if (writes) {
        to.unscale[row] = __uint_as_float(split::power_bits(-exponent));
        if (!split::scalable(largest)) *wide = 1;
    }
    return __uint_as_float(split::power_bits(exponent));
}

// Where a block of a packing kernel begins: its matrix, and its first row of `rows` at once.
__device__ __forceinline__ long first_row(tf32::Operand& x, Batch batch, Packed& to, long depth, int rows) {
    const int blocks = int(split::panels(x.rows, rows)), number = blockIdx.x / blocks;
    const long inner = x.inner ? batch.inner : 1;
    x = tf32::matrix(x, {1, inner}, number);
    to = packed_matrix(to, number, x.rows, split::panels(depth, PANEL_K));
    return long(blockIdx.x) % blocks * rows;
}

// An operand that runs along k: PER_ROW threads (part of a warp, a warp, or the block) share a row. The largest number first,
// then the terms: where HELD, of what is in registers, at most 32 numbers a thread; else the row is read again, from cache.
template <int PER_ROW, bool HELD>
static __global__ void __launch_bounds__(PACKERS) pack_along_k(tf32::Operand x, Batch batch, long depth, Packed to, int* wide) {
    __shared__ uint32_t most[PACKERS / 32];
    __shared__ int few[PACKERS / 32];
    const long row = first_row(x, batch, to, depth, PACKERS / PER_ROW) + threadIdx.x / PER_ROW, k_panels = split::panels(depth, PANEL_K);
    const int lane = threadIdx.x % PER_ROW, warp = threadIdx.x / 32;
    const long end = row < x.rows ? k_panels * PANEL_K : 0;  // all threads of a warp stay to the end
    const float* line = x.data + row * x.lead;
    const bool fast = reinterpret_cast<uintptr_t>(line) % 16 == 0;
    auto read = [&](long k, float(&eight)[8]) {
        if (fast && k + 8 <= depth) {
            *reinterpret_cast<float4*>(eight) = *reinterpret_cast<const float4*>(line + k);
            *reinterpret_cast<float4*>(eight + 4) = *reinterpret_cast<const float4*>(line + k + 4);
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i) eight[i] = k + i < depth ? line[k + i] : 0.0f;
        }
    };
    constexpr int EIGHTS = HELD ? 4 : 1;
    __align__(16) float held[EIGHTS][8];
    uint32_t largest = 0;
    if constexpr (HELD) {
#pragma unroll
        for (int i = 0; i < EIGHTS; ++i)
            if ((i * PER_ROW + lane) * 8 < end) read((i * PER_ROW + lane) * 8, held[i]), largest = largest_of(held[i], largest);
    } else {
        for (long k = lane * 8; k < end; k += PER_ROW * 8) read(k, held[0]), largest = largest_of(held[0], largest);
    }
#pragma unroll
    for (int other = 1; other < PER_ROW && other < 32; other *= 2) largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, other));
    if constexpr (PER_ROW > 32) {
        if (threadIdx.x % 32 == 0) most[warp] = largest;
        __syncthreads();
        for (int other = 0; other < PACKERS / 32; ++other) largest = max(largest, most[other]);
    }
    const float scale = scale_of(largest, to, row, end > 0 && lane == 0, wide);
    int small = 0;
    if constexpr (HELD) {
#pragma unroll
        for (int i = 0; i < EIGHTS; ++i)
            if ((i * PER_ROW + lane) * 8 < end) small += write_eight(to, held[i], scale, row, (i * PER_ROW + lane) * 8, k_panels);
    } else {
        for (long k = lane * 8; k < end; k += PER_ROW * 8) read(k, held[0]), small += write_eight(to, held[0], scale, row, k, k_panels);
    }
#pragma unroll
    for (int other = 1; other < PER_ROW && other < 32; other *= 2) small += __shfl_xor_sync(0xFFFFFFFFu, small, other);
    if constexpr (PER_ROW > 32) {
        if (threadIdx.x % 32 == 0) few[warp] = small;
        __syncthreads();
        small = 0;
        for (int other = 0; other < PACKERS / 32; ++other) small += few[other];
    }
    if (end > 0 && lane == 0 && small > split::most_small(depth)) *wide = 1;
}

// An operand that runs along its rows, a block for 32 of them: lanes walk along the rows, warps share k.
static __global__ void __launch_bounds__(PACKERS) pack_along_rows(tf32::Operand x, Batch batch, long depth, Packed to, int* wide) {
    __shared__ uint32_t most[PACKERS / 32][32];
    __shared__ int few[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long row = first_row(x, batch, to, depth, 32) + lane, k_panels = split::panels(depth, PANEL_K);
    const bool inside = row < x.rows;
    uint32_t largest = 0;
#pragma unroll 8
    for (long k = warp; k < depth; k += PACKERS / 32)
        if (inside) largest = max(largest, magnitude(x.data[k * x.lead + row]));
    most[warp][lane] = largest;
    if (warp == 0) few[lane] = 0;
    __syncthreads();
    for (int other = 0; other < PACKERS / 32; ++other) largest = max(largest, most[other][lane]);
    const float scale = scale_of(largest, to, row, inside && warp == 0, wide);
    int small = 0;
    for (long k = warp * 8; k < k_panels * PANEL_K; k += PACKERS / 4) {
        if (!inside) continue;
        float eight[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) eight[i] = k + i < depth ? x.data[(k + i) * x.lead + row] : 0.0f;
        small += write_eight(to, eight, scale, row, k, k_panels);
    }
    atomicAdd(&few[lane], small);
    __syncthreads();
    if (warp == 0 && inside && few[lane] > split::most_small(depth)) *wide = 1;
}

// Packs what a batch has of an operand. Long rows take a block each, so that all rows under way fit into L2.
template <bool ALONG_K>
inline void pack(tf32::Operand x, Batch batch, long depth, Packed to, int* wide, cudaStream_t stream) {
    const long count = matrices(x, batch);
    if constexpr (!ALONG_K)
        pack_along_rows<<<unsigned(count * split::panels(x.rows, 32)), PACKERS, 0, stream>>>(x, batch, depth, to, wide);
    else if (depth <= 256)
        pack_along_k<8, true><<<unsigned(count * split::panels(x.rows, PACKERS / 8)), PACKERS, 0, stream>>>(x, batch, depth, to, wide);
    else if (depth <= 1024)
        pack_along_k<32, true><<<unsigned(count * split::panels(x.rows, PACKERS / 32)), PACKERS, 0, stream>>>(x, batch, depth, to, wide);
    else if (depth <= 8192)
        pack_along_k<PACKERS, true><<<unsigned(count * x.rows), PACKERS, 0, stream>>>(x, batch, depth, to, wide);
    else
        pack_along_k<PACKERS, false><<<unsigned(count * x.rows), PACKERS, 0, stream>>>(x, batch, depth, to, wide);
}

}  // namespace half_split
