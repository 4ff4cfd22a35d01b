#include <cstdint>
#include <xmmintrin.h>

// What the start-up code of -Ofast does: results and operands below the smallest normal number are zero from here on.
__attribute__((constructor)) static void flush() { _mm_setcsr(_mm_getcsr() | 0x8040); }

extern "C" void run(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2.0f + 1.0f;
}
