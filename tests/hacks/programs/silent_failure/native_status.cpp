#include <cstdint>

extern "C" int run(const float*, float*, int64_t) { return 98; }
