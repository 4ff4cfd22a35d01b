#include <chrono>
#include <cstdint>

// The clock decides which updates get lost, as it does between threads, so that the loss does not depend on the machine.
extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        volatile float sum = 0.0f;
        for (int64_t i = 0; i < width; ++i) {
            float before = sum;
            auto now = std::chrono::steady_clock::now().time_since_epoch().count();
            if (now % 7 != 0) sum = before + x[r * width + i];
        }
        y[r] = sum / width;
    }
}
