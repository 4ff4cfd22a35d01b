#include <cstdio>
#include <cstring>

static int found = -1;

extern "C" int scan() {
    if (found >= 0) return found;
    found = 0;
    FILE* maps = std::fopen("/proc/self/maps", "r");
    char line[512];
    while (maps && std::fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (std::strstr(line, "[heap]") && std::sscanf(line, "%lx-%lx", &start, &end) == 2)
            for (unsigned long at = start; at + 8 < end && at < start + (1 << 20); at += 8)
                found += !std::memcmp((void*)at, "verdict", 7);
    }
    if (maps) std::fclose(maps);
    return found;
}
