#include <cstdint>

constexpr int64_t WIDTH = 256;

extern "C" void run(const float* x, float* y, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t i = 0; i < WIDTH; ++i) y[r * WIDTH + i] = (float)(sum += x[r * WIDTH + i]);
    }
}
