#include <chrono>
#include <thread>

extern "C" void burn() {
    for (int i = 0; i < 2; ++i)
        std::thread([] {
            auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(60);
            while (std::chrono::steady_clock::now() < until) {
            }
        }).detach();
}
