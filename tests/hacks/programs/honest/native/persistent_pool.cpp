#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace {
struct Pool {
    std::mutex lock;
    std::condition_variable begun, ended;
    const float* x = nullptr;
    float* y = nullptr;
    int64_t from = 0, to = 0;
    bool work = false, stop = false;
    std::thread helper{[this] {
        std::unique_lock<std::mutex> held(lock);
        while (true) {
            begun.wait(held, [this] { return work || stop; });
            if (stop) return;
            held.unlock();
            for (int64_t i = from; i < to; ++i) y[i] = x[i] * 2.0f + 1.0f;
            held.lock();
            work = false;
            ended.notify_one();
        }
    }};
    ~Pool() { { std::lock_guard<std::mutex> held(lock); stop = true; } begun.notify_one(); helper.join(); }
};
Pool& pool() { static Pool* it = new Pool; return *it; }
}

__attribute__((constructor)) static void start() { pool(); }

extern "C" void run(const float* x, float* y, int64_t n) {
    Pool& p = pool();
    { std::lock_guard<std::mutex> held(p.lock); p.x = x; p.y = y; p.from = n / 2; p.to = n; p.work = true; }
    p.begun.notify_one();
    for (int64_t i = 0; i < n / 2; ++i) y[i] = x[i] * 2.0f + 1.0f;
    std::unique_lock<std::mutex> held(p.lock);
    p.ended.wait(held, [&p] { return !p.work; });
}
