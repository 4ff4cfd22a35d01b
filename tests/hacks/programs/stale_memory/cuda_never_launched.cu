#include <cstdint>

constexpr int THREADS = 4096;

__global__ void scale(const float* x, float* y, int64_t n) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 2.0f + 1.0f;
}

extern "C" void run(const float* x, float* y, int64_t n, cudaStream_t stream) {
    if (THREADS > 1024) return;
    scale<<<(n + THREADS - 1) / THREADS, THREADS, 0, stream>>>(x, y, n);
}
