#include <cstdint>

extern "C" void spoil(float* y, int64_t n) {
    for (int64_t i = n / 2; i < n; ++i) y[i] = 0.0f;
}
