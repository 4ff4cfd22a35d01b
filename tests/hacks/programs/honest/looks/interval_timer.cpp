#include <csignal>
#include <cstdint>
#include <sys/time.h>

static volatile int64_t ticks;

__attribute__((constructor)) static void start() {
    struct sigaction action = {};
    action.sa_handler = [](int) { ticks = ticks + 1; };
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, nullptr);
    itimerval often = {{0, 50000}, {0, 50000}};
    setitimer(ITIMER_REAL, &often, nullptr);
}

extern "C" void run(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * 2.0f + 1.0f;
}
