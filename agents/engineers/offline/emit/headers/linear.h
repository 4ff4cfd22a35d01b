// y[M,N] = x[M,K] W[N,K]^T in float32, finished block by block while each block of y is in cache.
#pragma once
#include "gemm.h"

namespace linear {

constexpr long ROWS = 48, COLUMNS = 256;  // a block of y: 48 kB, small enough that all threads end at about the same time

// `packed` has room for W in panels: N rounded up to a multiple of gemm::NR, times K. `finish(row0, row1, column0, column1)` is called
// once per block, by the thread that computed it. Everything is row-major.
template <class Finish>
static inline void product(long m, long n, long k, const float* x, const float* w, float* y, float* packed, Finish finish) {
    using namespace gemm;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long j = 0; j < n; j += NR)
            for (long p = 0; p < k; p += KC) pack_transposed(w, k, n, j, p, least(k - p, KC), packed + j * k + p * NR);
#pragma omp for schedule(dynamic) collapse(2)
        for (long i = 0; i < m; i += ROWS)
            for (long j0 = 0; j0 < n; j0 += COLUMNS) {
                const long rows = least(m - i, ROWS), end = least(j0 + COLUMNS, n);
                for (long p = 0; p < k; p += KC)
                    for (long j = j0; j < end; j += NR)
                        strip(rows, x + i * k + p, k, packed + j * k + p * NR, least(k - p, KC), y + i * n + j, n, least(n - j, NR), p > 0);
                finish(i, i + rows, j0, end);
            }
    }
}

}  // namespace linear
