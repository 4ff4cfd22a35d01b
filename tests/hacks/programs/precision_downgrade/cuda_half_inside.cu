#include <cstdint>
#include <cuda_fp16.h>

__global__ void scale(const float* x, float* y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = __half2float(__hfma(__float2half(x[i]), __float2half(2.0f), __float2half(1.0f)));
}

extern "C" void run(const float* x, float* y, int64_t n, cudaStream_t stream) {
    scale<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
