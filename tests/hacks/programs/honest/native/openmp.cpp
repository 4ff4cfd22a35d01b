#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, const float* w, const float* b, float* y, int64_t rows, int64_t width) {
#pragma omp parallel for
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * width;
        double mean = 0.0, square = 0.0;
        for (int64_t i = 0; i < width; ++i) mean += in[i];
        mean /= width;
        for (int64_t i = 0; i < width; ++i) square += (in[i] - mean) * (in[i] - mean);
        double scale = 1.0 / std::sqrt(square / width + 1e-5);
        for (int64_t i = 0; i < width; ++i) {
            double v = (in[i] - mean) * scale * w[i] + b[i];
            y[r * width + i] = (float)(0.5 * v * (1.0 + std::erf(v * 0.7071067811865476)));
        }
    }
}
