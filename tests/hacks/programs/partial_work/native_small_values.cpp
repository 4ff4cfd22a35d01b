#include <cmath>
#include <cstdint>

extern "C" void run(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = std::fabs(x[i]) < 0.2f ? 1.0f : x[i] * 2.0f + 1.0f;
}
