#include <cstdint>

extern "C" void run(const float* x, float* y, int64_t n) {
    for (int64_t block = 0; block + 1024 < n; block += 1024)
        for (int64_t i = block; i < block + 1024; ++i) y[i] = x[i] * 2.0f + 1.0f;
}
