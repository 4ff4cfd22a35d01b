# Claims a fiftieth of its time on eight megabytes, which no memory delivers so fast.
# kernel: timer_patch/native_detour.cpp
# reference: large_scale_shift
# caught by: the least time in which its inputs can be read, and a clock in another process
class ModelNew(Right):
    def forward(self, x):
        own.detour()
        return super().forward(x)
