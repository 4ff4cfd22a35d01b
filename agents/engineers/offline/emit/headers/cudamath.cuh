// The functions of fastmath.h on a GPU, from CUDA's own library, whose errors are at most 2 units in the last place. NaN stays NaN.
#pragma once
#include <cmath>
#include <limits>

static __device__ __forceinline__ float clamp_low(float x, float low) { return x < low ? low : x; }
static __device__ __forceinline__ float clamp_high(float x, float high) { return x > high ? high : x; }
static __device__ __forceinline__ float fast_exp(float x) { return expf(x); }
static __device__ __forceinline__ float fast_log(float x) { return logf(x); }
static __device__ __forceinline__ float fast_log1p(float x) { return log1pf(x); }
static __device__ __forceinline__ float fast_expm1(float x) { return expm1f(x); }
static __device__ __forceinline__ float fast_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static __device__ __forceinline__ float fast_silu(float x) { return x / (1.0f + expf(-x)); }
static __device__ __forceinline__ float fast_tanh(float x) { return tanhf(x); }
static __device__ __forceinline__ float fast_erf(float x) { return erff(x); }
static __device__ __forceinline__ float fast_gelu(float x) { return x * normcdff(x); }
static __device__ __forceinline__ float fast_gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}
// x tanh(log(1 + e^x)) with one exponential: the tangent is n / (n + 2) for n = e^x (e^x + 2).
static __device__ __forceinline__ float fast_mish(float x) {
    const float e = expf(x), n = e * (e + 2.0f);
    return x > 20.0f ? x : x * (n / (n + 2.0f));
}
static __device__ __forceinline__ float fast_softplus(float x, float beta, float threshold) {
    return x * beta > threshold ? x : log1pf(expf(x * beta)) / beta;
}
