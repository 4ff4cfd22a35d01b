// C[M,N] = A[M,K] B[N,K]^T in float32 accuracy on the tensor cores of sm_90 (wgmma), and whatever follows on each element.
//
// `pack` cuts both operands into two fp16 terms, after scaling each row by a power of two, and lays them out as the tensor cores
// read them: panels of 128 × 64. Then high·high + (high·low + low·high) / 2^11 keeps 22 bits of every product. The tensor core
// truncates when it adds, and drifts with K, so high·high runs over RUN of K only before it is added in float32; the cross
// terms, 2^11 times smaller, run through and are added at the end.
// A persistent block of three warpgroups makes 128 × 128 of C at a time: one thread copies panels (cp.async.bulk, STAGES deep, a
// barrier each for full and empty), two warpgroups multiply 64 rows each.
// Rows whose numbers differ too widely for fp16 raise the flag `wide`; then gemm_tf32.cuh does the whole product instead.
#pragma once
#include <cuda_fp16.h>

#include "gemm_tf32.cuh"

#ifndef HALF_STAGES
#define HALF_STAGES 3
#endif
#ifndef HALF_RUN
#define HALF_RUN 128
#endif

namespace half_split {

using split::PANEL_BYTES, split::PANEL_K, split::PANEL_ROWS, split::PLANE_BYTES;
constexpr int STAGES = HALF_STAGES, RUN = HALF_RUN, STAGE_BYTES = 2 * PANEL_BYTES, THREADS = 384, PACKERS = 256;
constexpr int SHARED_BYTES = STAGES * STAGE_BYTES + 1024 + 16 * STAGES;

// An operand after `pack`: panels, and for each row what undoes its scale.
struct Packed {
    unsigned char* panels;
    float* unscale;
};

// Workspace in floats for an operand of `rows` × `depth`; the flag takes a few more, once.
constexpr long FLAG_FLOATS = 32;
inline long workspace_floats(long rows, long depth) { return split::packed_bytes(rows, depth) / 4 + split::panels(rows, 128) * 128; }
inline Packed in_workspace(float* at, long rows, long depth) {
    return {reinterpret_cast<unsigned char*>(at), at + split::packed_bytes(rows, depth) / 4};
}

__device__ __forceinline__ uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

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

// An operand that runs along k: PER_ROW threads (a warp, or the block) share a row. The largest number first, then the terms,
// while the row is in cache; long rows take a block each, so that all rows under way fit into L2.
template <int PER_ROW>
static __global__ void __launch_bounds__(PACKERS) pack_along_k(tf32::Operand x, long depth, Packed to, int* wide) {
    __shared__ uint32_t most[PACKERS / 32];
    __shared__ int few[PACKERS / 32];
    const long row = blockIdx.x * long(PACKERS / PER_ROW) + threadIdx.x / PER_ROW, k_panels = split::panels(depth, PANEL_K);
    const int lane = threadIdx.x % PER_ROW, warp = threadIdx.x / 32;
    if (row >= x.rows) return;
    const float* line = x.data + row * x.lead;
    uint32_t largest = 0;
    for (long k = lane; k < depth; k += PER_ROW) largest = max(largest, magnitude(line[k]));
    largest = __reduce_max_sync(0xFFFFFFFFu, largest);
    if constexpr (PER_ROW > 32) {
        if (threadIdx.x % 32 == 0) most[warp] = largest;
        __syncthreads();
        for (int other = 0; other < PACKERS / 32; ++other) largest = max(largest, most[other]);
    }
    const float scale = scale_of(largest, to, row, lane == 0, wide);
    const bool fast = reinterpret_cast<uintptr_t>(line) % 16 == 0;
    int small = 0;
    for (long k = lane * 8; k < k_panels * PANEL_K; k += PER_ROW * 8) {
        __align__(16) float eight[8];
        if (fast && k + 8 <= depth) {
            reinterpret_cast<float4*>(eight)[0] = reinterpret_cast<const float4*>(line + k)[0];
            reinterpret_cast<float4*>(eight)[1] = reinterpret_cast<const float4*>(line + k)[1];
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i) eight[i] = k + i < depth ? line[k + i] : 0.0f;
        }
        small += write_eight(to, eight, scale, row, k, k_panels);
    }
    small = __reduce_add_sync(0xFFFFFFFFu, small);
    if constexpr (PER_ROW > 32) {
        if (threadIdx.x % 32 == 0) few[warp] = small;
        __syncthreads();
        small = 0;
        for (int other = 0; other < PACKERS / 32; ++other) small += few[other];
    }
    if (lane == 0 && small > split::most_small(depth)) *wide = 1;
}

// An operand that runs along its rows, a block for 32 of them: lanes walk along the rows, warps share k.
static __global__ void __launch_bounds__(PACKERS) pack_along_rows(tf32::Operand x, long depth, Packed to, int* wide) {
    __shared__ uint32_t most[PACKERS / 32][32];
    __shared__ int few[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long row = blockIdx.x * 32L + lane, k_panels = split::panels(depth, PANEL_K);
    const bool inside = row < x.rows;
    uint32_t largest = 0;
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

template <bool ALONG_K>
inline void pack(tf32::Operand x, long depth, Packed to, int* wide, cudaStream_t stream) {
    if constexpr (ALONG_K) {
        if (depth > 2048)
            pack_along_k<PACKERS><<<unsigned(x.rows), PACKERS, 0, stream>>>(x, depth, to, wide);
        else
            pack_along_k<32><<<unsigned(split::panels(x.rows, PACKERS / 32)), PACKERS, 0, stream>>>(x, depth, to, wide);
    } else {
        pack_along_rows<<<unsigned(split::panels(x.rows, 32)), PACKERS, 0, stream>>>(x, depth, to, wide);
    }
}

// Barriers in shared memory and the bulk copy that completes on one.
__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra again;\n}" ::"r"(barrier),
        "r"(parity) : "memory");
}
__device__ __forceinline__ void copy_bulk(uint32_t to, const unsigned char* from, int bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier) : "memory");
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// c += A B^T for 64 × 16 of A and 128 × 16 of B in shared memory; c = A B^T where `adds` is 0.
__device__ __forceinline__ void multiply(float (&c)[64], uint64_t a, uint64_t b, int adds) {
    asm volatile(
        "{\n.reg .pred adds;\nsetp.ne.b32 adds, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23,"
        " %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45,"
        " %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;\n}"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),
          "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),
          "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),
          "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]),
          "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]),
          "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
          "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
          "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "l"(a), "l"(b), "r"(adds));
}
__device__ __forceinline__ void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void multiply_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from reading sums before a wait that stands above.
__device__ __forceinline__ void settled(float (&c)[64]) {
#pragma unroll
    for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
#endif

// One element of the result. The scales of row and column, apart, may be beyond float32 where their product is not.
__device__ __forceinline__ float total(float sum, float cross, const Packed& a, const Packed& b, long row, long column) {
    return float(double(sum + cross * (1.0f / split::LOW_SCALE)) * (double(a.unscale[row]) * double(b.unscale[column])));
}

// The persistent product. `wide`: nothing is done unless it points to 0.
template <class Finish>
__global__ void __launch_bounds__(THREADS, 1)
    product(Packed a, Packed b, long rows, long columns, long k_panels, const int* wide, Finish finish) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    extern __shared__ unsigned char memory[];
    if (*wide != 0) return;
    const uint32_t base = (tf32::shared_address(memory) + 1023u) & ~1023u, full = base + STAGES * STAGE_BYTES, empty = full + 8 * STAGES;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + 8 * s, 1);
            barrier_init(empty + 8 * s, 8);  // one arrival of each multiplying warp
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const long tiles_m = split::panels(rows, PANEL_ROWS), tiles_n = split::panels(columns, PANEL_ROWS);
    const int group = threadIdx.x / 128;
    int stage = 0;
    uint32_t parity = 0;
    auto next = [&] {
        if (++stage == STAGES) stage = 0, parity ^= 1;
    };
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            for (long tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
                long m, n;
                split::tile_of(tile, tiles_m, tiles_n, m, n);
                for (long p = 0; p < k_panels; ++p, next()) {
                    barrier_wait(empty + 8 * stage, parity ^ 1);
                    barrier_expect(full + 8 * stage, STAGE_BYTES);
                    copy_bulk(base + stage * STAGE_BYTES, a.panels + (m * k_panels + p) * PANEL_BYTES, PANEL_BYTES, full + 8 * stage);
                    copy_bulk(base + stage * STAGE_BYTES + PANEL_BYTES, b.panels + (n * k_panels + p) * PANEL_BYTES, PANEL_BYTES,
                              full + 8 * stage);
                }
            }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int thread = threadIdx.x % 128, lane = threadIdx.x % 32;
        const long half = (group - 1) * 64;
        for (long tile = blockIdx.x; tile < tiles_m * tiles_n; tile += gridDim.x) {
            long m, n;
            split::tile_of(tile, tiles_m, tiles_n, m, n);
            float sum[64] = {}, run[64], cross[64];
            for (long p = 0; p < k_panels; p += RUN / PANEL_K) {
                const int panels = k_panels - p < RUN / PANEL_K ? int(k_panels - p) : RUN / PANEL_K, before = stage;
                for (int q = 0; q < panels; ++q, next()) {
                    barrier_wait(full + 8 * stage, parity);
                    multiply_fence();
                    const uint64_t a_high = split::descriptor(base + stage * STAGE_BYTES + uint32_t(half) * 128);
                    const uint64_t b_high = split::descriptor(base + stage * STAGE_BYTES + PANEL_BYTES);
                    constexpr uint64_t LOW = PLANE_BYTES >> 4, STEP = 32 >> 4;
#pragma unroll
                    for (int s = 0; s < PANEL_K / 16; ++s) {
                        multiply(run, a_high + s * STEP, b_high + s * STEP, q + s > 0);
                        multiply(cross, a_high + s * STEP, b_high + LOW + s * STEP, q + s > 0 || p > 0);
                        multiply(cross, a_high + LOW + s * STEP, b_high + s * STEP, 1);
                    }
                    multiply_commit();
                    multiply_wait<1>();
                    if (q > 0 && lane == 0) barrier_arrive(empty + 8 * ((before + q - 1) % STAGES));
                }
                multiply_wait<0>();
                settled(run);
                settled(cross);
                if (lane == 0) barrier_arrive(empty + 8 * ((before + panels - 1) % STAGES));
#pragma unroll
                for (int i = 0; i < 64; ++i) sum[i] += run[i];
            }
            const long row0 = m * PANEL_ROWS + half, column0 = n * PANEL_ROWS;
#pragma unroll
            for (int i = 0; i < 64; i += 2) {
                const long row = row0 + split::d_row(thread, i), column = column0 + split::d_column(thread, i);
                if (row >= rows || column >= columns) continue;
                if (columns % 2 == 0) {
                    const float pair[2] = {total(sum[i], cross[i], a, b, row, column), total(sum[i + 1], cross[i + 1], a, b, row, column + 1)};
                    finish(row, column, pair);
                } else {
                    const float first[1] = {total(sum[i], cross[i], a, b, row, column)};
                    finish(row, column, first);
                    if (column + 1 < columns) {
                        const float second[1] = {total(sum[i + 1], cross[i + 1], a, b, row, column + 1)};
                        finish(row, column + 1, second);
                    }
                }
            }
        }
    }
#endif
}

// Starts the product of packed operands: one block for each multiprocessor, or for each tile where there are fewer.
template <class Finish>
inline void start(Packed a, Packed b, long rows, long columns, long depth, const int* wide, Finish finish, cudaStream_t stream) {
    const long tiles = split::panels(rows, PANEL_ROWS) * split::panels(columns, PANEL_ROWS);
    auto kernel = product<Finish>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES);
    kernel<<<unsigned(tiles < tf32::processors() ? tiles : tf32::processors()), THREADS, SHARED_BYTES, stream>>>(
        a, b, rows, columns, split::panels(depth, PANEL_K), wide, finish);
}

// Packs both operands, multiplies, and has gemm_tf32.cuh do it instead where the flag was raised: all decided on the device, so
// that a graph can hold it. `workspace`: FLAG_FLOATS + workspace_floats of both operands. The runtime's error code, 0 when well.
template <bool A_ALONG_K, bool B_ALONG_K, class Finish>
inline int launch(tf32::Operand a, tf32::Operand b, long depth, float* workspace, Finish finish, cudaStream_t stream) {
    int* wide = reinterpret_cast<int*>(workspace);
    const Packed pa = in_workspace(workspace + FLAG_FLOATS, a.rows, depth);
    const Packed pb = in_workspace(workspace + FLAG_FLOATS + workspace_floats(a.rows, depth), b.rows, depth);
    cudaMemsetAsync(wide, 0, sizeof(int), stream);
    pack<A_ALONG_K>(a, depth, pa, wide, stream);
    pack<B_ALONG_K>(b, depth, pb, wide, stream);
    start(pa, pb, a.rows, b.rows, depth, wide, finish, stream);
    return tf32::launch<A_ALONG_K, B_ALONG_K>(a, b, depth, wide, finish, stream);
}

}  // namespace half_split
