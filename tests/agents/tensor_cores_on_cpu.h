// Enough of CUDA, and of the instructions of gemm_tf32.cuh and wgmma.cuh, to run the templates of split products thread by thread on
// a CPU: barriers, copies and products as the PTX ISA says, though at once. The templates are rewritten by cuda_on_cpu.py.
#pragma once
#include "cuda_on_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>

// What the headers need of CUDA besides.
using std::isfinite;
using std::max;
#define __host__
#define __noinline__
#define __align__(n) __attribute__((aligned(n)))
#undef __syncthreads
#define __syncthreads() fibers::wait(1023, int(fibers::contexts.size()))
#define __CUDA_ARCH_FEAT_SM90_ALL
using __half = _Float16;
struct float4 { float x, y, z, w; };
struct int4 { int x, y, z, w; };
struct float2 { float x, y; };
inline float2 make_float2(float x, float y) { return {x, y}; }
enum { cudaDevAttrMultiProcessorCount, cudaFuncAttributeMaxDynamicSharedMemorySize };
inline unsigned long __cvta_generic_to_shared(const void*) { return 0; }
inline int cudaMemsetAsync(void* to, int value, unsigned long bytes, void*) { return std::memset(to, value, bytes), 0; }
template <class F> inline int cudaFuncSetAttribute(F, int, int) { return 0; }
inline int cudaGetDevice(int*) { return 0; }
inline int cudaDeviceGetAttribute(int* value, int, int) { return *value = 2, 0; }  // two multiprocessors
inline __half __float2half_rn(float x) { return __half(x); }
inline float __half2float(__half x) { return float(x); }
inline uint32_t __float_as_uint(float x) { uint32_t b; std::memcpy(&b, &x, 4); return b; }
inline float __uint_as_float(uint32_t b) { float x; std::memcpy(&x, &b, 4); return x; }
inline int atomicAdd(int* p, int v) { const int old = *p; *p += v; return old; }
template <class T, class Join> inline T of_warp(T value, Join join) {
    const int me = threadIdx.x, warp = me / 32;
    fibers::values[me] = double(value);
    fibers::wait(warp, 32);
    T all = T(fibers::values[warp * 32]);
    for (int lane = 1; lane < 32; ++lane) all = join(all, T(fibers::values[warp * 32 + lane]));
    fibers::wait(warp, 32);
    return all;
}
inline uint32_t __reduce_max_sync(unsigned, uint32_t v) { return of_warp(v, [](uint32_t a, uint32_t b) { return a > b ? a : b; }); }
inline int __reduce_add_sync(unsigned, int v) { return of_warp(v, [](int a, int b) { return a + b; }); }

// Shared memory, and the instructions of gemm_tf32.cuh on it; what all lanes of a warp must give first is left for the others.
inline unsigned char shared[256 << 10];
inline uint32_t left[384][6];
template <int WIDTH> inline void copy_async(uint32_t to, const float* from, int count) {
    std::memset(shared + to, 0, WIDTH * 4);
    std::memcpy(shared + to, from, count * 4);
}
inline uint32_t load_word(uint32_t address) { uint32_t w; std::memcpy(&w, shared + address, 4); return w; }
inline void load_matrices(uint32_t (&r)[4], uint32_t address) {
    const int me = threadIdx.x, warp = me / 32, lane = me % 32;
    left[me][0] = address;
    fibers::wait(warp, 32);
    for (int matrix = 0; matrix < 4; ++matrix) r[matrix] = load_word(left[warp * 32 + 8 * matrix + lane / 4][0] + lane % 4 * 4);
    fibers::wait(warp, 32);
}
inline float tf32_of(uint32_t bits) { return __uint_as_float(bits & 0xFFFFE000u); }
inline void multiply(float (&c)[4], const uint32_t* a, const uint32_t* b) {
    const int me = threadIdx.x, warp = me / 32 * 32, lane = me % 32;
    for (int i = 0; i < 4; ++i) left[me][i] = a[i];
    for (int i = 0; i < 2; ++i) left[me][4 + i] = b[i];
    fibers::wait(warp / 32, 32);
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i >= 2 ? 8 : 0), column = lane % 4 * 2 + i % 2;
        double sum = c[i];
        for (int k = 0; k < 8; ++k)
            sum += double(tf32_of(left[warp + row % 8 * 4 + k % 4][row / 8 + k / 4 * 2])) * tf32_of(left[warp + column * 4 + k % 4][4 + k / 4]);
        c[i] = float(sum);
    }
    fibers::wait(warp / 32, 32);
}

// The instructions of gemm_half.cuh: barriers that count arrivals and bytes, copies that are done at once, and wgmma, which reads
// both operands from shared memory through their descriptors.
struct Barrier { int needed, arrived, bytes, phase; };
inline Barrier barriers[64];
inline uint32_t barrier_base;
inline Barrier& barrier_at(uint32_t address) { return barriers[address / 8 % 64]; }
inline void settle(Barrier& b) {
    if (b.arrived == b.needed && b.bytes == 0) b.arrived = 0, b.phase ^= 1;
}
inline void barrier_init(uint32_t address, int arrivals) { barrier_at(address) = {arrivals, 0, 0, 0}; }
inline void barrier_arrive(uint32_t address) { ++barrier_at(address).arrived, settle(barrier_at(address)); }
inline void barrier_expect(uint32_t address, int bytes) {
    barrier_at(address).bytes += bytes;
    barrier_arrive(address);
}
inline void barrier_wait(uint32_t address, uint32_t parity) {
    while (barrier_at(address).phase == int(parity)) fibers::turn();
}
inline void copy_bulk(uint32_t to, const unsigned char* from, int bytes, uint32_t address) {
    std::memcpy(shared + to, from, bytes);
    barrier_at(address).bytes -= bytes;
    settle(barrier_at(address));
}
inline float half_at(uint64_t descriptor, int row, int k) {
    uint32_t at = uint32_t(descriptor & 0x3FFF) * 16 + row / 8 * uint32_t(descriptor >> 32 & 0x3FFF) * 16 + row % 8 * 128 + k * 2;
    __half value;
    std::memcpy(&value, shared + (at ^ (at >> 7 & 7) << 4), 2);
    return float(value);
}
template <int COUNT> inline void multiply(float (&c)[COUNT], uint64_t a, uint64_t b, int adds) {
    const int thread = threadIdx.x % 128;
    for (int i = 0; i < COUNT; ++i) {
        const int row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = adds ? c[i] : 0.0;
        for (int k = 0; k < 16; ++k) sum += double(half_at(a, row, k)) * half_at(b, column, k);
        c[i] = float(sum);
    }
}
inline void multiply_fence() {}
inline void multiply_commit() {}
template <int PENDING> inline void multiply_wait() {}
template <int COUNT> inline void settled(float (&)[COUNT]) {}
template <int COUNT> inline void fewer_registers() {}
template <int COUNT> inline void more_registers() {}
inline void barrier_publish() {}

// What attention_half.cuh needs besides: the left operand in registers, and the numbers that are in them.
inline float power_of_two(float x) { return std::exp2(x); }
inline uint32_t two_halves(float first, float second) {
    const __half both[2] = {__half(first), __half(second)};
    uint32_t bits;
    std::memcpy(&bits, both, 4);
    return bits;
}
inline float2 two_floats(uint32_t bits) {
    __half both[2];
    std::memcpy(both, &bits, 4);
    return {float(both[0]), float(both[1])};
}
inline void multiply(float (&c)[32], const uint32_t* a, uint64_t b, int adds) {
    const int me = threadIdx.x, thread = me % 128, warp = me / 32 * 32;
    for (int i = 0; i < 4; ++i) left[me][i] = a[i];
    fibers::wait(me / 32, 32);
    for (int i = 0; i < 32; ++i) {
        const int row = thread % 32 / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + thread % 4 * 2 + i % 2;
        double sum = adds ? c[i] : 0.0;
        for (int k = 0; k < 16; ++k) {
            const float2 pair = two_floats(left[warp + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2]);
            sum += double(k % 2 ? pair.y : pair.x) * half_at(b, column, k);
        }
        c[i] = float(sum);
    }
    fibers::wait(me / 32, 32);
}
