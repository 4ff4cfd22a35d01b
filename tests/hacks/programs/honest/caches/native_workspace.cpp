#include <cmath>
#include <cstdint>
#include <vector>

extern "C" void run(const float* x, float* y, int64_t rows, int64_t width) {
    static std::vector<double> scratch;
    if ((int64_t)scratch.size() < width) scratch.resize(width);
    for (int64_t r = 0; r < rows; ++r) {
        const float* in = x + r * width;
        double largest = in[0], sum = 0.0;
        for (int64_t i = 1; i < width; ++i) largest = in[i] > largest ? in[i] : largest;
        for (int64_t i = 0; i < width; ++i) sum += scratch[i] = std::exp(in[i] - largest);
        for (int64_t i = 0; i < width; ++i) y[r * width + i] = (float)(scratch[i] / sum);
    }
}
