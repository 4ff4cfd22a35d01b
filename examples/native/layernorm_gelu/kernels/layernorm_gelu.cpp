// LayerNorm and GELU in one pass over each row, which stays in the first-level cache between its three readings.
#include <cmath>
#include <cstdint>

#include "fastmath.h"

extern "C" void layernorm_gelu(const float* x, const float* weight, const float* bias, float* y, int64_t rows, int64_t width,
                               float epsilon, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
        const float* in = x + row * width;
        float* out = y + row * width;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; ++i) sum += in[i];
        const float mean = sum / width;
        float squares = 0.0f;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = 0; i < width; ++i) squares += (in[i] - mean) * (in[i] - mean);
        const float scale = 1.0f / std::sqrt(squares / width + epsilon);
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) out[i] = fast_gelu((in[i] - mean) * scale * weight[i] + bias[i]);
    }
}
