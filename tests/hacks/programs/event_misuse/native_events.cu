extern "C" void mark() {
    static cudaEvent_t event = nullptr;
    if (!event) cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaEventRecord(event, cudaStreamLegacy);
}
