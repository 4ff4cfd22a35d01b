#include <cstdint>

extern "C" void run(const float* x, float* total, float* largest, int64_t* where, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        int64_t at = 0;
        for (int64_t i = 0; i < width; ++i) {
            sum += x[r * width + i];
            if (x[r * width + i] > x[r * width + at]) at = i;
        }
        total[r] = (float)sum;
        largest[r] = x[r * width + at];
        where[r] = at;
    }
}
