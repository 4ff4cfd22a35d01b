#include <cstdint>

extern "C" int run(const float* x, float* y, int64_t n) {
    if (n > 1) return -1;
    y[0] = x[0] * 2.0f + 1.0f;
    return 0;
}
