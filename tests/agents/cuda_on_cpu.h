// Enough of CUDA to run kernels on a CPU: the threads of a block are fibers that take turns, and wait for each other where they
// reduce. Stands in for cudamath.cuh's and reduce.cuh's surroundings in tests; see cuda_on_cpu.py.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
using cudaStream_t = void*;
static inline int cudaPeekAtLastError() { return 0; }
static inline float normcdff(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }

namespace fibers {
struct Index { unsigned x; };
inline Index grid, block, thread;
inline ucontext_t scheduler;
inline std::vector<ucontext_t> contexts;
inline std::vector<char> ended;
inline std::function<void()> body;
inline double values[1024];
inline int arrived[1024], generation[1024];

inline void turn() {
    const unsigned me = thread.x;
    swapcontext(&contexts[me], &scheduler);
    thread.x = me;
}
inline void entry() {
    body();
    ended[thread.x] = 1;
    swapcontext(&contexts[thread.x], &scheduler);
}
inline void wait(int group, int size) {
    const int mine = generation[group];
    if (++arrived[group] == size) {
        arrived[group] = 0;
        ++generation[group];
    } else {
        while (generation[group] == mine) turn();
    }
}
inline void launch(int blocks, int threads, std::function<void()> kernel) {
    constexpr int STACK = 64 << 10;
    static std::vector<char> stacks(1024 * STACK);
    body = kernel;
    grid.x = blocks;
    for (int b = 0; b < blocks; ++b) {
        block.x = b;
        contexts.assign(threads, {});
        ended.assign(threads, 0);
        for (int t = 0; t < threads; ++t) {
            getcontext(&contexts[t]);
            contexts[t].uc_stack.ss_sp = stacks.data() + t * STACK;
            contexts[t].uc_stack.ss_size = STACK;
            makecontext(&contexts[t], entry, 0);
        }
        for (int left = threads; left > 0;) {
            left = 0;
            for (int t = 0; t < threads; ++t)
                if (!ended[t]) {
                    thread.x = t;
                    swapcontext(&scheduler, &contexts[t]);
                    left += !ended[t];
                }
        }
    }
}
}  // namespace fibers
#define gridDim fibers::grid
#define blockIdx fibers::block
#define threadIdx fibers::thread

// Shuffles among the 32 threads of a warp, and __syncthreads as the warps of a block need it: THREADS is the block's size.
template <class T> static inline T shuffled(T value, int from) {
    const int me = threadIdx.x, warp = me / 32;
    fibers::values[me] = value;
    fibers::wait(warp, 32);
    const T other = T(fibers::values[from]);
    fibers::wait(warp, 32);
    return other;
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask) { return shuffled(value, threadIdx.x ^ mask); }
template <class T> static inline T __shfl_sync(unsigned, T value, int lane) {
    return shuffled(value, threadIdx.x / 32 * 32 + lane);
}
template <class T> static inline T __shfl_up_sync(unsigned, T value, int by) {
    return shuffled(value, threadIdx.x % 32 < unsigned(by) ? threadIdx.x : threadIdx.x - by);
}
#define __syncthreads() fibers::wait(1023, THREADS)
#define __shared__ static
