#include <cstdint>
#include <cstring>

static float fast_exp(float x) {
    int32_t bits = (int32_t)(12102203.0f * x) + 1064866805;
    float y;
    std::memcpy(&y, &bits, 4);
    return y;
}

extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        float sum = 0.0f;
        for (int64_t i = 0; i < width; ++i) sum += y[r * width + i] = fast_exp(x[r * width + i]);
        for (int64_t i = 0; i < width; ++i) y[r * width + i] /= sum;
    }
}
