// Running sums and products along rows or columns of a tensor.
#pragma once
#include "vectors.cuh"

namespace scan {

struct Sum {
    static constexpr float START = 0.0f;
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};
struct Product {
    static constexpr float START = 1.0f;
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a * b; }
};

// A block walks along a row of LENGTH numbers, tile by tile. Of a tile each warp has a stretch: SEGMENTS times 32 × W neighbours, read
// as whole lines. Threads run through their own W, the 32 threads of a warp through each other's totals by shuffles, warps by shared
// memory; what a tile came to is carried on. All of it in float64, so that a long row loses nothing. BACKWARDS: from the row's end.
template <class Op, int THREADS, int SEGMENTS, int LENGTH, bool BACKWARDS, int W>
static __global__ void __launch_bounds__(THREADS) rows(const float* __restrict__ x, float* __restrict__ y) {
    constexpr int WARPS = THREADS / 32, STRETCH = 32 * W * SEGMENTS;
    __shared__ double totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    x += blockIdx.x * long(LENGTH);
    y += blockIdx.x * long(LENGTH);
    double carry = Op::START;
    for (int first = 0; first < LENGTH; first += WARPS * STRETCH) {
        float at[SEGMENTS][W];
        double before[SEGMENTS], whole = Op::START;
#pragma unroll
        for (int s = 0; s < SEGMENTS; ++s) {
            const int place = first + warp * STRETCH + (s * 32 + lane) * W;
            float read[W];
            vectors::read<W>(place < LENGTH, x + (BACKWARDS ? LENGTH - W - place : place), read);
#pragma unroll
            for (int k = 0; k < W; ++k) at[s][k] = place < LENGTH ? read[BACKWARDS ? W - 1 - k : k] : Op::START;
        }
#pragma unroll
        for (int s = 0; s < SEGMENTS; ++s) {
            double sum = at[s][0];
#pragma unroll
            for (int k = 1; k < W; ++k) sum = Op::combine(sum, double(at[s][k]));
#pragma unroll
            for (int step = 1; step < 32; step *= 2) {
                const double other = __shfl_up_sync(0xFFFFFFFFu, sum, step);
                if (lane >= step) sum = Op::combine(other, sum);
            }
            const double left = __shfl_up_sync(0xFFFFFFFFu, sum, 1);
            before[s] = lane > 0 ? Op::combine(whole, left) : whole;
            whole = Op::combine(whole, __shfl_sync(0xFFFFFFFFu, sum, 31));
        }
        double lead = carry;
        if constexpr (WARPS > 1) {
            if (lane == 0) totals[warp] = whole;
            __syncthreads();
#pragma unroll
            for (int other = 0; other < WARPS; ++other) {
                if (other == warp) lead = carry;
                carry = Op::combine(carry, totals[other]);
            }
            __syncthreads();
        } else {
            carry = Op::combine(carry, whole);
        }
#pragma unroll
        for (int s = 0; s < SEGMENTS; ++s) {
            const int place = first + warp * STRETCH + (s * 32 + lane) * W;
            double running = Op::combine(lead, before[s]);
            float next[W];
#pragma unroll
            for (int k = 0; k < W; ++k) {
                running = Op::combine(running, double(at[s][k]));
                next[BACKWARDS ? W - 1 - k : k] = float(running);
            }
            if (place < LENGTH) vectors::write<W>(y + (BACKWARDS ? LENGTH - W - place : place), next);
        }
    }
}

// A thread for each of COUNT columns, whose neighbours lie INNER numbers apart and which lie side by side.
template <class Op, int COUNT, int LENGTH, int INNER, bool BACKWARDS>
static __global__ void __launch_bounds__(256) columns(const float* __restrict__ x, float* __restrict__ y) {
    const int item = blockIdx.x * 256 + threadIdx.x;
    if (item >= COUNT) return;
    const long begin = item / INNER * (long(LENGTH) * INNER) + item % INNER;
    double sum = Op::START;
#pragma unroll 8
    for (int i = 0; i < LENGTH; ++i) {
        const long place = begin + (BACKWARDS ? LENGTH - 1 - i : i) * long(INNER);
        sum = Op::combine(sum, double(x[place]));
        y[place] = float(sum);
    }
}

}  // namespace scan
