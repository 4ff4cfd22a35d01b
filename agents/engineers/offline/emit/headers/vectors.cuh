// Neighbouring numbers in one access to memory: W of them, at an address that is a multiple of their size together.
#pragma once
#include <cstdint>

namespace vectors {

template <int W, class T>
struct alignas(W * sizeof(T)) Pack {
    T at[W];
};

template <int W, class T>
static __device__ __forceinline__ void read(const T* from, T (&to)[W]) {
    const Pack<W, T> pack = *reinterpret_cast<const Pack<W, T>*>(from);
#pragma unroll
    for (int k = 0; k < W; ++k) to[k] = pack.at[k];
}

// Zeros, unless they lie inside.
template <int W, class T>
static __device__ __forceinline__ void read(bool inside, const T* from, T (&to)[W]) {
    Pack<W, T> pack{};
    if (inside) pack = *reinterpret_cast<const Pack<W, T>*>(from);
#pragma unroll
    for (int k = 0; k < W; ++k) to[k] = pack.at[k];
}

template <int W, class T>
static __device__ __forceinline__ void write(T* to, const T (&from)[W]) {
    Pack<W, T> pack;
#pragma unroll
    for (int k = 0; k < W; ++k) pack.at[k] = from[k];
    *reinterpret_cast<Pack<W, T>*>(to) = pack;
}

// By pairs, so that equal numbers come to exactly so many times one of them.
template <int W>
static __device__ __forceinline__ float total(const float (&x)[W]) {
    if constexpr (W == 4) return (x[0] + x[1]) + (x[2] + x[3]);
    if constexpr (W == 2) return x[0] + x[1];
    return x[0];
}

template <int W, class... T>
static inline bool aligned(const T*... at) {
    return ((reinterpret_cast<std::uintptr_t>(at) % (W * sizeof(T)) == 0) && ...);
}

}  // namespace vectors
