#include <cstdint>
#include <thread>

static void part(const float* x, float* y, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) y[i] = x[i] * 2.0f + 1.0f;
}

extern "C" void run(const float* x, float* y, int64_t n) {
    std::thread other(part, x, y, 0, n / 2);
    part(x, y, n / 2, n);
    other.join();
}
