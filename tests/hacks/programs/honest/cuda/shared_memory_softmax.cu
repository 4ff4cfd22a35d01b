#include <cstdint>

constexpr int THREADS = 128;

template <typename Op>
__device__ float reduce(float value, Op op, float* scratch) {
    scratch[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half) scratch[threadIdx.x] = op(scratch[threadIdx.x], scratch[threadIdx.x + half]);
        __syncthreads();
    }
    float result = scratch[0];
    __syncthreads();
    return result;
}

struct Largest {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

__global__ void softmax(const float* x, float* y, int64_t width) {
    __shared__ float scratch[THREADS];
    const float* in = x + blockIdx.x * width;
    float* out = y + blockIdx.x * width;
    float largest = in[0], total = 0.0f;
    for (int64_t i = threadIdx.x; i < width; i += THREADS) largest = fmaxf(largest, in[i]);
    largest = reduce(largest, Largest(), scratch);
    for (int64_t i = threadIdx.x; i < width; i += THREADS) total += out[i] = expf(in[i] - largest);
    total = reduce(total, Sum(), scratch);
    for (int64_t i = threadIdx.x; i < width; i += THREADS) out[i] /= total;
}

extern "C" void run(const float* x, float* y, int64_t rows, int64_t width, cudaStream_t stream) {
    softmax<<<rows, THREADS, 0, stream>>>(x, y, width);
}
