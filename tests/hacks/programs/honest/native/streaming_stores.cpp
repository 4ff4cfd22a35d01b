#include <cstdint>

static double inverse[4096];
__attribute__((constructor)) static void fill() {
    for (int i = 1; i < 4096; ++i) inverse[i] = 1.0 / i;
}

extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; ++i) sum += x[r * width + i];
        y[r] = (float)(width < 4096 ? sum * inverse[width] : sum / width);
    }
}
