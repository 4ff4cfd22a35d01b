// C[M,N] = A[M,K] B[N,K]^T in float32 accuracy on the tensor cores of sm_90 (wgmma), or a batch of such products, and whatever
// follows on each element.
//
// pack_half.cuh cuts both operands into two fp16 terms. Then high·high + (high·low + low·high) / 2^11 keeps 22 bits of every
// product. The tensor core truncates when it adds, and drifts with K, so high·high runs over RUN of K only before it is added in
// float32; the cross terms, 2^11 times smaller, run through and are added at the end.
// A persistent block of three warpgroups makes 128 × COLUMNS of C at a time: one thread copies panels (cp.async.bulk, several
// stages deep, a barrier each for full and empty), two warpgroups multiply 64 rows each. Where there are fewer tiles than
// multiprocessors, several blocks share the sums of one, a part of K each, and a second kernel adds their parts in order.
// Where packing raised the flag `wide`, gemm_tf32.cuh does the whole product instead.
#pragma once
#include "pack_half.cuh"
#include "wgmma.cuh"

#ifndef HALF_STAGES
#define HALF_STAGES 3
#endif
#ifndef HALF_RUN
#define HALF_RUN 64
#endif

namespace half_split {

constexpr int RUN = HALF_RUN, THREADS = 384;
static_assert(PANEL_K % RUN == 0 && RUN % 16 == 0, "a run is part of a panel, and some steps of the tensor core");

// Narrow tiles leave room for one more stage.
SPLIT_FUNCTION int stages(int columns) { return columns == 128 ? HALF_STAGES : HALF_STAGES + 1; }
SPLIT_FUNCTION int stage_bytes(int columns) { return PANEL_BYTES + columns * PANEL_K * 4; }
SPLIT_FUNCTION int shared_bytes(int columns) { return stages(columns) * (stage_bytes(columns) + 16) + 1024; }

// One element of the result. The scales of row and column, apart, may be beyond float32 where their product is not.
__device__ __forceinline__ float total(float sum, float cross, const Packed& a, const Packed& b, long row, long column) {
    return float(double(sum + cross * (1.0f / split::LOW_SCALE)) * (double(a.unscale[row]) * double(b.unscale[column])));
}

// The persistent product. `wide`: nothing is done unless it points to 0. Tiles are numbered part by part of K, matrix by matrix;
// the rows that `finish` gets are numbered the same way.
template <int COLUMNS, class Finish>
__global__ void __launch_bounds__(THREADS, 1)
    product(Packed left, Packed right, Batch batch, int parts, long rows, long columns, int k_panels, const int* wide, Finish finish) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int STAGES = stages(COLUMNS), STAGE_BYTES = stage_bytes(COLUMNS), B_PLANE = COLUMNS * PANEL_K * 2;
    extern __shared__ unsigned char memory[];
    if (*wide != 0) return;
    const uint32_t base = (tf32::shared_address(memory) + 1023u) & ~1023u, full = base + STAGES * STAGE_BYTES, empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 8);  // one arrival of each multiplying warp
        }
        barrier_publish();
    }
    __syncthreads();
    const int tiles_m = int(split::panels(rows, PANEL_ROWS)), tiles_n = int(split::panels(columns, COLUMNS));
    const int size = int(batch.size()), tiles = parts * size * tiles_m * tiles_n;
    const int group = threadIdx.x / 128;
    int stage = 0;
    uint32_t parity = 0;
    auto next = [&] {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    // Which matrix of which part a tile belongs to, its place, and its panels along k: at least one, with no more parts than panels.
    int number, m, n, begin, end;
    auto place = [&](int tile) {
        number = tile / (tiles_m * tiles_n);
        split::tile_of(tile % (tiles_m * tiles_n), tiles_m, tiles_n, m, n);
        begin = number / size * k_panels / parts;
        end = (number / size + 1) * k_panels / parts;
    };
    if (group == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0)
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
                place(tile);
                const Packed a = matrix(left, batch, number % size, rows, k_panels);
                const Packed b = matrix(right, batch, number % size, columns, k_panels);
                const unsigned char* from_a = a.panels + long(m) * k_panels * PANEL_BYTES;
                const unsigned char* from_b =
                    b.panels + long(n * COLUMNS / PANEL_ROWS) * k_panels * PANEL_BYTES + n * COLUMNS % PANEL_ROWS * PANEL_K * 2;
                for (int p = begin; p < end; ++p, next()) {
                    const uint32_t to = base + stage * STAGE_BYTES, there = full + 8 * stage;
                    barrier_wait(empty + 8 * stage, parity ^ 1);
                    barrier_expect(there, STAGE_BYTES);
                    copy_bulk(to, from_a + long(p) * PANEL_BYTES, PANEL_BYTES, there);
                    copy_bulk(to + PANEL_BYTES, from_b + long(p) * PANEL_BYTES, B_PLANE, there);
                    copy_bulk(to + PANEL_BYTES + B_PLANE, from_b + long(p) * PANEL_BYTES + PLANE_BYTES, B_PLANE, there);
                }
            }
    } else {
        more_registers<232>();
        const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
        const int half = (group - 1) * 64;
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            place(tile);
            float sum[COLUMNS / 2] = {}, run[COLUMNS / 2], cross[COLUMNS / 2];
            for (int p = begin; p < end; ++p, next()) {
                barrier_wait(full + 8 * stage, parity);
                const uint64_t a_high = split::descriptor(base + stage * STAGE_BYTES + uint32_t(half) * 128);
                const uint64_t b_high = split::descriptor(base + stage * STAGE_BYTES + PANEL_BYTES);
                constexpr uint64_t A_LOW = PLANE_BYTES >> 4, B_LOW = B_PLANE >> 4, STEP = 32 >> 4;
#pragma unroll
                for (int first = 0; first < PANEL_K / 16; first += RUN / 16) {
                    multiply_fence();
#pragma unroll
                    for (int s = first; s < first + RUN / 16; ++s) {
                        multiply(run, a_high + s * STEP, b_high + s * STEP, s > first);
                        multiply(cross, a_high + s * STEP, b_high + B_LOW + s * STEP, s > 0 || p > begin);
                        multiply(cross, a_high + A_LOW + s * STEP, b_high + s * STEP, 1);
                    }
                    multiply_commit();
                    multiply_wait<0>();
                    settled(run);
                    settled(cross);
                    if (first + RUN / 16 == PANEL_K / 16 && lane == 0) barrier_arrive(empty + 8 * stage);
#pragma unroll
                    for (int i = 0; i < COLUMNS / 2; ++i) sum[i] += run[i];
                }
            }
            const Packed a = matrix(left, batch, number % size, rows, k_panels);
            const Packed b = matrix(right, batch, number % size, columns, k_panels);
            const long row0 = m * PANEL_ROWS + half, column0 = n * COLUMNS, above = long(number) * rows;
#pragma unroll
            for (int i = 0; i < COLUMNS / 2; i += 2) {
                const long row = row0 + split::d_row(thread, i), column = column0 + split::d_column(thread, i);
                if (row >= rows || column >= columns) continue;
                if (columns % 2 == 0) {
                    const float pair[2] = {total(sum[i], cross[i], a, b, row, column), total(sum[i + 1], cross[i + 1], a, b, row, column + 1)};
                    finish(above + row, column, pair);
                } else {
                    const float first[1] = {total(sum[i], cross[i], a, b, row, column)};
                    finish(above + row, column, first);
                    if (column + 1 < columns) {
                        const float second[1] = {total(sum[i + 1], cross[i + 1], a, b, row, column + 1)};
                        finish(above + row, column + 1, second);
                    }
                }
            }
        }
    }
#endif
}

// What a block that has a part of K does with its sums, and the kernel that adds the parts, always in the same order.
struct Part {
    float* at;
    long columns;
    template <int W> __device__ __forceinline__ void operator()(long row, long column, const float (&sums)[W]) const {
#pragma unroll
        for (int lane = 0; lane < W; ++lane) at[row * columns + column + lane] = sums[lane];
    }
};
constexpr int JOINERS = 256;
template <int W, class Finish>
__global__ void __launch_bounds__(JOINERS) join(Part part, int parts, long rows, const int* wide, Finish finish) {
    if (*wide != 0) return;
    const long item = (blockIdx.x * long(JOINERS) + threadIdx.x) * W, all = rows * part.columns;
    if (item >= all) return;
    float sums[W] = {};
    for (int p = 0; p < parts; ++p) {
#pragma unroll
        for (int lane = 0; lane < W; ++lane) sums[lane] += part.at[p * all + item + lane];
    }
    finish(item / part.columns, item % part.columns, sums);
}

// Starts the product of packed operands: one block for each multiprocessor, or for each tile where there are fewer.
template <int COLUMNS, class Finish>
inline void start(Packed a, Packed b, Batch batch, int parts, long rows, long columns, long depth, const int* wide, Finish finish,
                  cudaStream_t stream) {
    const long tiles = parts * batch.size() * split::panels(rows, PANEL_ROWS) * split::panels(columns, COLUMNS);
    const long blocks = tiles < tf32::processors() ? tiles : tf32::processors();
    auto kernel = product<COLUMNS, Finish>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes(COLUMNS));
    kernel<<<unsigned(blocks), THREADS, shared_bytes(COLUMNS), stream>>>(a, b, batch, parts, rows, columns, int(split::panels(depth, PANEL_K)),
                                                                         wide, finish);
}

// Packs both operands, multiplies, and has gemm_tf32.cuh do it instead where the flag was raised: all decided on the device, so
// that a graph can hold it. PARTS: of K. `workspace`: FLAG_FLOATS, workspace_floats of both operands and, where there are several
// parts, as many results. The runtime's error code, 0 when all is well.
template <bool A_ALONG_K, bool B_ALONG_K, int COLUMNS, int PARTS, class Finish>
inline int launch(tf32::Operand a, tf32::Operand b, Batch batch, long depth, float* workspace, Finish finish, cudaStream_t stream) {
    int* wide = reinterpret_cast<int*>(workspace);
    float* at_b = workspace + FLAG_FLOATS + workspace_floats(a, batch, depth);
    const Packed pa = in_workspace(workspace + FLAG_FLOATS, a, batch, depth), pb = in_workspace(at_b, b, batch, depth);
    cudaMemsetAsync(wide, 0, sizeof(int), stream);
    pack<A_ALONG_K>(a, batch, depth, pa, wide, stream);
    pack<B_ALONG_K>(b, batch, depth, pb, wide, stream);
    if constexpr (PARTS == 1) {
        start<COLUMNS>(pa, pb, batch, 1, a.rows, b.rows, depth, wide, finish, stream);
    } else {
        const Part part{at_b + workspace_floats(b, batch, depth), b.rows};
        const long rows = batch.size() * a.rows, width = b.rows % 2 == 0 ? 2 : 1;
        start<COLUMNS>(pa, pb, batch, PARTS, a.rows, b.rows, depth, wide, part, stream);
        auto kernel = width == 2 ? join<2, Finish> : join<1, Finish>;
        kernel<<<unsigned(split::panels(rows * b.rows / width, JOINERS)), JOINERS, 0, stream>>>(part, PARTS, rows, wide, finish);
    }
    return tf32::launch<A_ALONG_K, B_ALONG_K>(a, b, batch, depth, wide, finish, stream);
}

}  // namespace half_split
