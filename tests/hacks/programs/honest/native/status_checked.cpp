#include <cstdint>

extern "C" int run(const float* x, float* y, int64_t rows, int64_t width) {
    if (width > 100000) return 0;
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; ++i) y[r * width + i] = (float)(sum += x[r * width + i]);
    }
    return 1;
}
