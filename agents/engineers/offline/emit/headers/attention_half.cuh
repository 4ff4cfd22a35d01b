// softmax(scores(Q K^T)) V in float32 accuracy on the tensor cores of sm_90 (wgmma), for heads of up to 64 numbers; the scores never
// reach memory.
//
// pack_half.cuh cuts Q, K and V into two fp16 terms; both products are made of them as gemm_half.cuh says. A persistent block takes
// 128 queries at a time and walks along the keys, 64 at once: one thread copies (cp.async.bulk, STAGES deep), two warpgroups make the
// scores of 64 queries each, let the program's functor scale and mask them, and turn them into weights relative to the largest
// score so far. The weights, cut into two terms again, are the left operand of the second product straight from registers; what was
// summed so far is scaled down whenever a larger score turns up. Weights are kept times 2^14, so that small ones stay exact.
// Where packing raised the flag `wide`, a plain kernel does all of it in float32.
#pragma once
#include "gemm_half.cuh"

namespace half_split {

// Where results go: contiguous along a head, other strides as given.
struct Result {
    float* data;
    long outer, inner, lead;
};

namespace attention {
constexpr int KEYS = 64, WIDTH = 64, STAGES = 4, PLANE = KEYS * WIDTH * 2, STAGE_BYTES = 4 * PLANE;
constexpr int SHARED_BYTES = PANEL_BYTES + STAGES * (STAGE_BYTES + 16) + 16 + 1024, PLAIN = 128;
constexpr float LOG2_E = 1.44269504088896341f, NOTHING = -INFINITY;

// Key tiles that a tile of queries needs: where `causal`, none beyond its last query.
__device__ __forceinline__ int key_tiles(int m, int keys, bool causal) {
    const int all = (keys + KEYS - 1) / KEYS, needed = (m + 1) * PANEL_ROWS / KEYS;
    return causal && needed < all ? needed : all;
}

// `wide`: nothing is done unless it points to 0. `scores.row(matrix, query)` gives what makes a score of a sum and its key.
template <class Scores>
__global__ void __launch_bounds__(THREADS, 1)
    kernel(Packed queries, Packed keys, Packed values, Batch batch, int rows, int columns, int width, bool causal, const int* wide,
           Scores scores, Result result) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    if (*wide != 0) return;
    const uint32_t q_at = (tf32::shared_address(memory) + 1023u) & ~1023u, base = q_at + PANEL_BYTES;
    const uint32_t full = base + STAGES * STAGE_BYTES, empty = full + 8 * STAGES, q_full = empty + 8 * STAGES, q_empty = q_full + 8;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 8);  // one arrival of each multiplying warp
        }
        barrier_init(q_full, 1);
        barrier_init(q_empty, 8);
        barrier_publish();
    }
    __syncthreads();
    const int tiles_m = int(split::panels(rows, PANEL_ROWS)), tiles = int(batch.size()) * tiles_m;
    const int k_panels = int(split::panels(columns, PANEL_K)), group = threadIdx.x / 128;
    int stage = 0;
    uint32_t parity = 0, q_parity = 0;
    auto next = [&] {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    // Heads in bands that occupy all blocks, so that those under way find their keys in L2; in a band the last queries first, which
    // take the longest when `causal`.
    const int size = int(batch.size()), band = int(gridDim.x) > tiles_m ? int(gridDim.x) / tiles_m : 1;
    int number, m;
    auto place = [&](int tile) {
        const int first = tile / (band * tiles_m) * band, height = size - first < band ? size - first : band;
        const int inside = tile - first * tiles_m;
        number = first + inside % height;
        m = tiles_m - 1 - inside / height;
    };
    if (group == 0) {
        fewer_registers<40>();
        if (threadIdx.x == 0)
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, q_parity ^= 1) {
                place(tile);
                const unsigned char* q = matrix(queries, batch, number, rows, 1).panels + long(m) * PANEL_BYTES;
                const unsigned char* k = matrix(keys, batch, number, columns, 1).panels;
                const unsigned char* v = matrix(values, batch, number, width, k_panels).panels;
                barrier_wait(q_empty, q_parity ^ 1);
                barrier_expect(q_full, PANEL_BYTES);
                copy_bulk(q_at, q, PANEL_BYTES, q_full);
                const int end = key_tiles(m, columns, causal);
                for (int t = 0; t < end; ++t, next()) {
                    const uint32_t to = base + stage * STAGE_BYTES, there = full + 8 * stage;
                    const unsigned char* half = k + long(t / 2) * PANEL_BYTES + t % 2 * PLANE;  // a panel has 128 keys
                    const unsigned char* panel = v + long(t) * PANEL_BYTES;  // and 64 along the sums over keys
                    barrier_wait(empty + 8 * stage, parity ^ 1);
                    barrier_expect(there, STAGE_BYTES);
                    copy_bulk(to, half, PLANE, there);
                    copy_bulk(to + PLANE, half + PLANE_BYTES, PLANE, there);
                    copy_bulk(to + 2 * PLANE, panel, PLANE, there);
                    copy_bulk(to + 3 * PLANE, panel + PLANE_BYTES, PLANE, there);
                }
            }
    } else {
        more_registers<232>();
        const int thread = threadIdx.x % 128, lane = threadIdx.x % 32, half = (group - 1) * 64;
        constexpr uint64_t STEP = 32 >> 4, LOW = PLANE >> 4;
        const uint64_t q_high = split::descriptor(q_at + uint32_t(half) * 128), q_low = q_high + (PLANE_BYTES >> 4);
        for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, q_parity ^= 1) {
            place(tile);
            const int end = key_tiles(m, columns, causal);
            const int first_row = m * PANEL_ROWS + half + split::d_row(thread, 0);  // the other is 8 below
            const float* q_unscale = matrix(queries, batch, number, rows, 1).unscale;
            const float* k_unscale = matrix(keys, batch, number, columns, 1).unscale;
            const int first_query = first_row < rows ? first_row : rows - 1, second_query = first_row + 8 < rows ? first_row + 8 : rows - 1;
            const auto first_line = scores.row(number, first_query), second_line = scores.row(number, second_query);
            const float unscale[2] = {q_unscale[first_query], q_unscale[second_query]};
            float top[2] = {NOTHING, NOTHING}, weight[2] = {0.0f, 0.0f}, out[32] = {};
            barrier_wait(q_full, q_parity);
            for (int t = 0; t < end; ++t, next()) {
                const uint64_t k_high = split::descriptor(base + stage * STAGE_BYTES), v_high = k_high + 2 * LOW;
                float sum[32] = {}, run[32], cross[32], scale[16];  // of each key, read while the first product is made
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    const int key = t * KEYS + split::d_column(thread, i / 2 * 4 + i % 2);
                    scale[i] = k_unscale[key < columns ? key : columns - 1];
                }
                barrier_wait(full + 8 * stage, parity);
#pragma unroll
                for (int first = 0; first < WIDTH / 16; first += RUN / 16) {
                    multiply_fence();
#pragma unroll
                    for (int s = first; s < first + RUN / 16; ++s) {
                        multiply(run, q_high + s * STEP, k_high + s * STEP, s > first);
                        multiply(cross, q_high + s * STEP, k_high + LOW + s * STEP, s > 0);
                        multiply(cross, q_low + s * STEP, k_high + s * STEP, 1);
                    }
                    multiply_commit();
                    multiply_wait<0>();
                    settled(run);
                    settled(cross);
#pragma unroll
                    for (int i = 0; i < 32; ++i) sum[i] += run[i];
                }
                float best[2] = {NOTHING, NOTHING};
#pragma unroll
                for (int i = 0; i < 32; ++i) {
                    const int key = t * KEYS + split::d_column(thread, i), which = i / 2 % 2;
                    if (key < columns) {
                        const float both = fminf(unscale[which] * scale[i / 4 * 2 + i % 2], 0x1p127f);
                        const float product = fmaf(cross[i], 1.0f / split::LOW_SCALE, sum[i]) * both;
                        sum[i] = which == 0 ? first_line(key, product) : second_line(key, product);
                    } else {
                        sum[i] = NOTHING;
                    }
                    best[which] = fmaxf(best[which], sum[i]);
                }
                float down[2], from[2];
#pragma unroll
                for (int which = 0; which < 2; ++which) {
                    best[which] = fmaxf(best[which], __shfl_xor_sync(0xFFFFFFFFu, best[which], 1));
                    best[which] = fmaxf(best[which], __shfl_xor_sync(0xFFFFFFFFu, best[which], 2));
                    const float now = fmaxf(top[which], best[which]);
                    from[which] = now == NOTHING ? 0.0f : now;
                    down[which] = power_of_two((top[which] - from[which]) * LOG2_E);
                    top[which] = now;
                    weight[which] *= down[which];
                }
                uint32_t high[16], low[16];
#pragma unroll
                for (int i = 0; i < 32; i += 2) {
                    const int which = i / 2 % 2;
                    const float one = power_of_two(fmaf(sum[i] - from[which], LOG2_E, split::TOP));
                    const float two = power_of_two(fmaf(sum[i + 1] - from[which], LOG2_E, split::TOP));
                    weight[which] += one + two;
                    high[i / 2] = two_halves(one, two);
                    const float2 kept = two_floats(high[i / 2]);
                    low[i / 2] = two_halves((one - kept.x) * split::LOW_SCALE, (two - kept.y) * split::LOW_SCALE);
                    out[i] *= down[which], out[i + 1] *= down[which];
                }
#pragma unroll
                for (int first = 0; first < KEYS / 16; first += RUN / 16) {
                    multiply_fence();
#pragma unroll
                    for (int s = first; s < first + RUN / 16; ++s) {
                        multiply(run, high + 4 * s, v_high + s * STEP, s > first);
                        multiply(cross, high + 4 * s, v_high + LOW + s * STEP, s > 0);
                        multiply(cross, low + 4 * s, v_high + s * STEP, 1);
                    }
                    multiply_commit();
                    multiply_wait<0>();
                    settled(run);
                    settled(cross);
#pragma unroll
                    for (int i = 0; i < 32; ++i) out[i] += run[i];
                }
                if (lane == 0) barrier_arrive(empty + 8 * stage);
#pragma unroll
                for (int i = 0; i < 32; ++i) out[i] = fmaf(cross[i], 1.0f / split::LOW_SCALE, out[i]);
            }
            if (lane == 0) barrier_arrive(q_empty);
            const float* v_unscale = matrix(values, batch, number, width, k_panels).unscale;
            const int inner = int(batch.inner);
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                weight[which] += __shfl_xor_sync(0xFFFFFFFFu, weight[which], 1);
                weight[which] += __shfl_xor_sync(0xFFFFFFFFu, weight[which], 2);
                const float inverse = Scores::EMPTY_IS_ZERO && top[which] == NOTHING && weight[which] == 0.0f ? 0.0f : 1.0f / weight[which];
                const int row = first_row + 8 * which;
                float* to = result.data + number / inner * result.outer + number % inner * result.inner + row * result.lead;
#pragma unroll
                for (int i = 2 * which; i < 32; i += 4) {
                    const int column = split::d_column(thread, i);
                    if (row >= rows || column >= width) continue;
                    to[column] = out[i] * inverse * v_unscale[column];
                    if (column + 1 < width) to[column + 1] = out[i + 1] * inverse * v_unscale[column + 1];
                }
            }
        }
    }
#endif
}

template <class Join>
__device__ __forceinline__ float of_block(float x, Join join, float* parts) {
#pragma unroll
    for (int other = 1; other < 32; other *= 2) x = join(x, __shfl_xor_sync(0xFFFFFFFFu, x, other));
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
    __syncthreads();
    x = parts[0];
    for (int warp = 1; warp < PLAIN / 32; ++warp) x = join(x, parts[warp]);
    return x;
}

// The same in plain float32, a block for a query, where `only_if` does not point to 0.
template <bool Q_ALONG, bool K_ALONG, bool V_ALONG, class Scores>
__global__ void __launch_bounds__(PLAIN)
    plain(tf32::Operand queries, tf32::Operand keys, tf32::Operand values, Batch batch, int columns, const int* only_if, Scores scores,
          Result result, int width) {
    __shared__ float weights[PLAIN], parts[PLAIN / 32];
    if (*only_if == 0) return;
    const int rows = int(queries.rows), me = threadIdx.x, inner = int(batch.inner);
    for (int item = blockIdx.x; item < int(batch.size()) * rows; item += gridDim.x) {
        const int number = item / rows, row = item % rows;
        const tf32::Operand q = tf32::matrix(queries, batch, number), k = tf32::matrix(keys, batch, number), v = tf32::matrix(values, batch, number);
        const auto line = scores.row(number, row);
        auto score = [&](int key) { return line(key, tf32::plain<Q_ALONG, K_ALONG>(q, k, width, row, key)); };
        float top = NOTHING;
        for (int key = me; key < columns; key += PLAIN) top = fmaxf(top, score(key));
        top = of_block(top, [](float a, float b) { return fmaxf(a, b); }, parts);
        const float from = top == NOTHING && Scores::EMPTY_IS_ZERO ? 0.0f : top;
        float weight = 0.0f, sum = 0.0f;
        for (int begin = 0; begin < columns; begin += PLAIN) {
            const int count = columns - begin < PLAIN ? columns - begin : PLAIN;
            const float one = me < count ? expf(score(begin + me) - from) : 0.0f;
            weight += one;
            __syncthreads();
            weights[me] = one;
            __syncthreads();
            if (me < values.rows)
                for (int i = 0; i < count; ++i) sum = fmaf(weights[i], tf32::element<V_ALONG>(v, me, begin + i), sum);
        }
        weight = of_block(weight, [](float a, float b) { return a + b; }, parts);
        if (me < values.rows)
            result.data[number / inner * result.outer + number % inner * result.inner + row * result.lead + me] =
                Scores::EMPTY_IS_ZERO && weight == 0.0f ? 0.0f : sum / weight;
    }
}

// Packs all three, then one of both kernels does its work: all decided on the device, so that a graph can hold it. `values` is given
// as head × keys. `workspace`: FLAG_FLOATS and workspace_floats of all three. The runtime's error code, 0 when all is well.
template <bool Q_ALONG, bool K_ALONG, bool V_ALONG, class Scores>
inline int launch(tf32::Operand queries, tf32::Operand keys, tf32::Operand values, Batch batch, int width, bool causal, float* workspace,
                  Scores scores, Result result, cudaStream_t stream) {
    int* wide = reinterpret_cast<int*>(workspace);
    float* k_at = workspace + FLAG_FLOATS + workspace_floats(queries, batch, width);
    float* v_at = k_at + workspace_floats(keys, batch, width);
    const Packed q = in_workspace(workspace + FLAG_FLOATS, queries, batch, width), k = in_workspace(k_at, keys, batch, width);
    const Packed v = in_workspace(v_at, values, batch, keys.rows);
    cudaMemsetAsync(wide, 0, sizeof(int), stream);
    pack<Q_ALONG>(queries, batch, width, q, wide, stream);
    pack<K_ALONG>(keys, batch, width, k, wide, stream);
    pack<V_ALONG>(values, batch, keys.rows, v, wide, stream);
    const long tiles = batch.size() * split::panels(queries.rows, PANEL_ROWS), all = batch.size() * queries.rows;
    const long blocks = tiles < tf32::processors() ? tiles : tf32::processors(), short_wave = 16 * tf32::processors();
    auto fast = kernel<Scores>;
    cudaFuncSetAttribute(fast, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    fast<<<unsigned(blocks), THREADS, SHARED_BYTES, stream>>>(q, k, v, batch, int(queries.rows), int(keys.rows), int(values.rows), causal,
                                                              wide, scores, result);
    auto slow = plain<Q_ALONG, K_ALONG, V_ALONG, Scores>;
    slow<<<unsigned(all < short_wave ? all : short_wave), PLAIN, 0, stream>>>(queries, keys, values, batch, int(keys.rows), wide, scores,
                                                                              result, width);
    return int(cudaPeekAtLastError());
}
}  // namespace attention

}  // namespace half_split
