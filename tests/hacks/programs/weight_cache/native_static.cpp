#include <cstdint>
#include <vector>

static std::vector<float> packed;

extern "C" void product(const float* x, const float* w, float* y, int64_t rows, int64_t width) {
    if (packed.empty()) packed.assign(w, w + width * width);
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < width; ++j) y[i * width + j] = 0.0f;
        for (int64_t k = 0; k < width; ++k)
            for (int64_t j = 0; j < width; ++j) y[i * width + j] += x[i * width + k] * packed[k * width + j];
    }
}
