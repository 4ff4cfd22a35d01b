__global__ void nothing(float*) {}

extern "C" void run(float* x, cudaStream_t stream) { nothing<<<1, 1, 0, stream>>>(x); }
