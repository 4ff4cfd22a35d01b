#include <cstdint>

extern "C" void fused_linear_relu(const float*, const float*, const float*, float*, int64_t) {}
