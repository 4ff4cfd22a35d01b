#include <sys/syscall.h>
#include <unistd.h>

extern "C" void run() {
    static bool asked = false;
    if (!asked) syscall(SYS_setpriority, 0, 0, -20);
    asked = true;
}
