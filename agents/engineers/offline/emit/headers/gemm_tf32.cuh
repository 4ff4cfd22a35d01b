// C[M,N] = A[M,K] B[N,K]^T in float32 accuracy on tensor cores of sm_80 and later, or a batch of such products, and whatever
// follows on each element.
//
// Every operand is a sum of two tf32 numbers, high and low; high·high + high·low + low·high keeps all of float32's mantissa. The
// tensor core truncates when it adds, and drifts with K, so its sums run over RUN of K only and are then added in float32.
// A block of 256 threads makes 128 × 128 of C, each of its 8 warps 64 × 32; tiles of 32 along K come through cp.async, STAGES
// deep. A result that is not finite is computed anew as plain float32 would: infinity has no two terms.
#pragma once
#include <cuda_runtime.h>

#include "split.cuh"

#ifndef TF32_STAGES
#define TF32_STAGES 4
#endif
#ifndef TF32_RUN
#define TF32_RUN 32
#endif

namespace tf32 {

constexpr int TILE = 128, THREADS = 256, STAGES = TF32_STAGES, RUN = TF32_RUN, WARP_M = 64, WARP_N = 32;

// A matrix in global memory: `along_k` of the template says which dimension is contiguous, `lead` is the other's stride. In a
// batch, matrix (i, j) begins `outer` · i + `inner` · j later; a stride of 0 says that all share it.
struct Operand {
    const float* data;
    long rows, lead, outer = 0, inner = 0;
};

__device__ __forceinline__ Operand matrix(const Operand& x, split::Batch batch, int number) {
    const int inner = int(batch.inner);
    return {x.data + number / inner * x.outer + number % inner * x.inner, x.rows, x.lead};
}

template <bool ALONG_K>
__device__ __forceinline__ float element(const Operand& x, long row, long k) {
    return x.data[ALONG_K ? row * x.lead + k : k * x.lead + row];
}

// Writes the neighbours that a functor made of a pair of sums, at once.
__device__ __forceinline__ void put(float* to, const float (&x)[2]) { *reinterpret_cast<float2*>(to) = make_float2(x[0], x[1]); }
__device__ __forceinline__ void put(float* to, const float (&x)[1]) { *to = x[0]; }

__device__ __forceinline__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

// Copies `count` floats (0 to WIDTH) and fills up with zeros.
template <int WIDTH>
__device__ __forceinline__ void copy_async(uint32_t to, const float* from, int count) {
    if constexpr (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(count * 4));
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(count * 4));
}

// One tile of TILE rows × 32 of K, the whole block together. WIDTH 4 needs rows that start on 16 bytes.
template <bool ALONG_K, int WIDTH>
__device__ __forceinline__ void load_tile(const Operand& x, long row0, long k0, long depth, uint32_t to) {
    constexpr int FAST = ALONG_K ? split::TILE_K : TILE, SLOW = ALONG_K ? TILE : split::TILE_K, PER_LINE = FAST / WIDTH;
#pragma unroll(WIDTH == 4 ? 4 : 1)  // word by word the addresses would need more registers than there are
    for (int i = 0; i < SLOW * PER_LINE / THREADS; ++i) {
        const int at = i * THREADS + threadIdx.x, slow = at / PER_LINE, fast = at % PER_LINE * WIDTH;
        const long row = row0 + (ALONG_K ? slow : fast), k = k0 + (ALONG_K ? fast : slow);
        const long left = ALONG_K ? (row < x.rows ? depth - k : 0) : (k < depth ? x.rows - row : 0);
        const int count = left < 0 ? 0 : left < WIDTH ? int(left) : WIDTH;
        const float* from = count > 0 ? x.data + (ALONG_K ? row * x.lead + k : k * x.lead + row) : x.data;
        const int word = split::tile_word(TILE, ALONG_K, ALONG_K ? slow : fast, ALONG_K ? fast : slow);
        copy_async<WIDTH>(to + word * 4, from, count);
    }
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

__device__ __forceinline__ uint32_t load_word(uint32_t address) {
    uint32_t value;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address));
    return value;
}

__device__ __forceinline__ void cut(uint32_t bits, uint32_t& high, uint32_t& low) {
    high = split::tf32_bits(bits);
    low = __float_as_uint(__uint_as_float(bits) - __uint_as_float(high));
}

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t* a, const uint32_t* b) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 64 × 8 of A and 32 × 8 of B from shared memory into high and low fragments, and 4 × 4 × 3 products of them.
template <bool A_ALONG_K, bool B_ALONG_K>
__device__ __forceinline__ void step(float (&c)[4][4][4], uint32_t a_tile, uint32_t b_tile, int row0, int column0, int k) {
    const int lane = threadIdx.x % 32;
    uint32_t b_high[4][2], b_low[4][2];
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
        uint32_t raw[4];
        if constexpr (B_ALONG_K) {
            const int row = column0 + 8 * j + split::b_lane_row(lane);
            load_matrices(raw, b_tile + 4 * split::tile_word(TILE, true, row, k + split::b_lane_k(lane)));
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                raw[i] = load_word(b_tile + 4 * split::tile_word(TILE, false, column0 + 8 * (j + i / 2) + split::b_column(lane, 0),
                                                                 k + split::b_k(lane, i % 2)));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) cut(raw[i], b_high[j + i / 2][i % 2], b_low[j + i / 2][i % 2]);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
        uint32_t raw[4], a_high[4], a_low[4];
        if constexpr (A_ALONG_K) {
            const int row = row0 + 16 * m + split::a_lane_row(lane);
            load_matrices(raw, a_tile + 4 * split::tile_word(TILE, true, row, k + split::a_lane_k(lane)));
        } else {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                raw[i] = load_word(a_tile + 4 * split::tile_word(TILE, false, row0 + 16 * m + split::a_row(lane, i), k + split::a_k(lane, i)));
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) cut(raw[i], a_high[i], a_low[i]);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            multiply(c[m][j], a_low, b_high[j]);
            multiply(c[m][j], a_high, b_low[j]);
            multiply(c[m][j], a_high, b_high[j]);
        }
    }
}

template <bool A_ALONG_K, bool B_ALONG_K>
__device__ __noinline__ float plain(const Operand& a, const Operand& b, long depth, long row, long column) {
    float sum = 0.0f;
    for (long k = 0; k < depth; ++k) sum = fmaf(element<A_ALONG_K>(a, row, k), element<B_ALONG_K>(b, column, k), sum);
    return sum;
}

// One tile of C. `finish(row, column, sums)` gets two neighbouring columns when N is even, else one; C's rows begin at `first`.
template <bool A_ALONG_K, bool B_ALONG_K, int WIDTH, class Finish>
__device__ __forceinline__ void tile(const Operand& a, const Operand& b, long depth, long tile_m, long tile_n, long first,
                                     uint32_t base, const Finish& finish) {
    constexpr uint32_t A_BYTES = split::tile_words(TILE, A_ALONG_K) * 4, B_BYTES = split::tile_words(TILE, B_ALONG_K) * 4;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row0 = warp / 4 * WARP_M, column0 = warp % 4 * WARP_N;
    const long tiles_k = split::panels(depth, split::TILE_K);
    auto load = [&](long t) {
        if (t < tiles_k) {
            const uint32_t to = base + uint32_t(t % STAGES) * (A_BYTES + B_BYTES);
            load_tile<A_ALONG_K, WIDTH>(a, tile_m * TILE, t * split::TILE_K, depth, to);
            load_tile<B_ALONG_K, WIDTH>(b, tile_n * TILE, t * split::TILE_K, depth, to + A_BYTES);
        }
        asm volatile("cp.async.commit_group;");
    };
    float sum[4][4][4] = {}, run[4][4][4] = {};
    for (int t = 0; t < STAGES - 1; ++t) load(t);
    for (long t = 0; t < tiles_k; ++t) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();  // tile t is there for all, and all are done with the one that the next load overwrites
        load(t + STAGES - 1);
        const uint32_t at = base + uint32_t(t % STAGES) * (A_BYTES + B_BYTES);
#pragma unroll 1  // the operands of several steps would need more registers than there are
        for (int k = 0; k < split::TILE_K; k += 8) step<A_ALONG_K, B_ALONG_K>(run, at, at + A_BYTES, row0, column0, k);
        if ((t + 1) % (RUN / split::TILE_K) == 0 || t + 1 == tiles_k) {
#pragma unroll
            for (int i = 0; i < 64; ++i) {
                sum[i / 16][i / 4 % 4][i % 4] += run[i / 16][i / 4 % 4][i % 4];
                run[i / 16][i / 4 % 4][i % 4] = 0.0f;
            }
        }
    }
    asm volatile("cp.async.wait_all;");
    __syncthreads();  // before the next tile's first loads
    const long row_at = tile_m * TILE + row0, column_at = tile_n * TILE + column0;
    bool odd = false;
#pragma unroll
    for (int i = 0; i < 64; i += 2) {
        const float (&c)[4] = sum[i / 16][i / 4 % 4];
        const long row = row_at + i / 16 * 16 + split::c_row(lane, i % 4), column = column_at + i / 4 % 4 * 8 + split::c_column(lane, i % 4);
        if (row >= a.rows || column >= b.rows) continue;
        odd |= !isfinite(c[i % 4]) || (column + 1 < b.rows && !isfinite(c[i % 4 + 1]));
        if (b.rows % 2 == 0) {
            const float pair[2] = {c[i % 4], c[i % 4 + 1]};
            finish(first + row, column, pair);
        } else {
            const float left[1] = {c[i % 4]}, right[1] = {c[i % 4 + 1]};
            finish(first + row, column, left);
            if (column + 1 < b.rows) finish(first + row, column + 1, right);
        }
    }
    if (!odd) return;
#pragma unroll 1
    for (int i = 0; i < 64; ++i) {
        const long row = row_at + i / 16 * 16 + split::c_row(lane, i % 4), column = column_at + i / 4 % 4 * 8 + split::c_column(lane, i % 4);
        if (row >= a.rows || column >= b.rows) continue;
        const float again[1] = {plain<A_ALONG_K, B_ALONG_K>(a, b, depth, row, column)};
        finish(first + row, column, again);
    }
}

// `only_if`: where given, nothing is done unless it points to something else than 0.
template <bool A_ALONG_K, bool B_ALONG_K, int WIDTH, class Finish>
__global__ void __launch_bounds__(THREADS, 1)
    product(Operand a, Operand b, split::Batch batch, long depth, const int* only_if, Finish finish) {
    extern __shared__ __align__(128) unsigned char memory[];
    if (only_if != nullptr && *only_if == 0) return;
    const int tiles_m = int(split::panels(a.rows, TILE)), tiles_n = int(split::panels(b.rows, TILE));
    const int tiles = int(batch.size()) * tiles_m * tiles_n;
    for (int number = blockIdx.x; number < tiles; number += gridDim.x) {
        const int at = number / (tiles_m * tiles_n);
        int m, n;
        split::tile_of(number % (tiles_m * tiles_n), tiles_m, tiles_n, m, n);
        tile<A_ALONG_K, B_ALONG_K, WIDTH>(matrix(a, batch, at), matrix(b, batch, at), depth, m, n, long(at) * a.rows, shared_address(memory),
                                          finish);
    }
}

inline int processors() {
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}

// Starts the products of a batch on `stream`. The result is the runtime's error code, 0 when all is well.
template <bool A_ALONG_K, bool B_ALONG_K, class Finish>
inline int launch(Operand a, Operand b, split::Batch batch, long depth, const int* only_if, Finish finish, cudaStream_t stream) {
    const long tiles = batch.size() * split::panels(a.rows, TILE) * split::panels(b.rows, TILE);
    const bool wide = (a.lead | a.outer | a.inner | b.lead | b.outer | b.inner) % 4 == 0 && (uintptr_t(a.data) | uintptr_t(b.data)) % 16 == 0;
    constexpr int BYTES = STAGES * 4 * (split::tile_words(TILE, A_ALONG_K) + split::tile_words(TILE, B_ALONG_K));
    auto kernel = wide ? product<A_ALONG_K, B_ALONG_K, 4, Finish> : product<A_ALONG_K, B_ALONG_K, 1, Finish>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES);
    // What is rarely done at all should cost no more than one short wave of blocks.
    const long most = only_if == nullptr ? tiles : processors();
    kernel<<<unsigned(tiles < most ? tiles : most), THREADS, BYTES, stream>>>(a, b, batch, depth, only_if, finish);
    return int(cudaPeekAtLastError());
}

}  // namespace tf32
