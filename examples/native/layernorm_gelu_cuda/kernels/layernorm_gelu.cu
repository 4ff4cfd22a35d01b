// LayerNorm and GELU, one block of 256 threads a row: each thread keeps its four elements in registers, so a row is read once.
#include <cstdint>

namespace {

constexpr int WIDTH = 1024, THREADS = 256;

__device__ float block_sum(float value, float* shared) {
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffff, value, offset);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) total += shared[warp];
    __syncthreads();
    return total;
}

__device__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }

__global__ void normalise(const float4* __restrict__ x, const float4* __restrict__ weight, const float4* __restrict__ bias,
                          float4* __restrict__ y, float epsilon) {
    __shared__ float shared[THREADS / 32];
    const int64_t at = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const float4 v = x[at], w = weight[threadIdx.x], b = bias[threadIdx.x];
    const float mean = block_sum(v.x + v.y + v.z + v.w, shared) / WIDTH;
    const float4 d = {v.x - mean, v.y - mean, v.z - mean, v.w - mean};
    const float variance = block_sum(d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w, shared) / WIDTH;
    const float scale = rsqrtf(variance + epsilon);
    y[at] = {gelu(d.x * scale * w.x + b.x), gelu(d.y * scale * w.y + b.y), gelu(d.z * scale * w.z + b.z),
             gelu(d.w * scale * w.w + b.w)};
}

}  // namespace

extern "C" int layernorm_gelu(const float* x, const float* weight, const float* bias, float* y, int64_t rows, float epsilon,
                              cudaStream_t stream) {
    if (rows > 0)
        normalise<<<rows, THREADS, 0, stream>>>((const float4*)x, (const float4*)weight, (const float4*)bias, (float4*)y, epsilon);
    return cudaPeekAtLastError();
}
