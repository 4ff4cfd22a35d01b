// C[M,N] = A[M,K] B[K,N] in float32, in pieces that a kernel puts together and finishes while they are in cache.
//
// The micro-kernel holds MR x NR numbers of C in vector registers, two vectors to a row, and walks down a panel of B that was packed
// NR columns wide. A is read in place, MR rows at a time. Long sums are cut into runs of KC, which are added up in float32.
#pragma once

namespace gemm {

#ifdef __AVX512F__
constexpr long LANES = 16, MR = 12, KC = 256;  // 32 registers: 24 of sums, two of B
#else
constexpr long LANES = 8, MR = 6, KC = 384;  // 16 registers: 12 of sums, two of B; GCC and Clang lower it to what the machine has
#endif
constexpr long NR = 2 * LANES;  // with KC, a panel of 24 or 32 kB, which stays in L1

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline vec load(const float* p) { return *(const loose*)p; }
static inline void store(float* p, vec v) { *(loose*)p = v; }

// Two vectors as one run of numbers: its even and its odd places; and the reverse, two vectors interleaved, first and second half.
#ifdef __AVX512F__
typedef int ints __attribute__((vector_size(64)));
static inline vec evens(vec a, vec b) { return __builtin_shuffle(a, b, (ints){0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30}); }
static inline vec odds(vec a, vec b) { return __builtin_shuffle(a, b, (ints){1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}); }
static inline vec lower_pairs(vec a, vec b) { return __builtin_shuffle(a, b, (ints){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23}); }
static inline vec upper_pairs(vec a, vec b) { return __builtin_shuffle(a, b, (ints){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31}); }
#else
typedef int ints __attribute__((vector_size(32)));
static inline vec evens(vec a, vec b) { return __builtin_shuffle(a, b, (ints){0, 2, 4, 6, 8, 10, 12, 14}); }
static inline vec odds(vec a, vec b) { return __builtin_shuffle(a, b, (ints){1, 3, 5, 7, 9, 11, 13, 15}); }
static inline vec lower_pairs(vec a, vec b) { return __builtin_shuffle(a, b, (ints){0, 8, 1, 9, 2, 10, 3, 11}); }
static inline vec upper_pairs(vec a, vec b) { return __builtin_shuffle(a, b, (ints){4, 12, 5, 13, 6, 14, 7, 15}); }
#endif

static inline long least(long a, long b) { return a < b ? a : b; }

// ROWS rows of A, lda apart, times a packed panel [k][NR]: added onto C, or written where `onto` is false.
template <int ROWS>
static inline void block(const float* a, long lda, const float* panel, long k, float* c, long ldc, long columns, bool onto) {
    vec left[ROWS], right[ROWS];
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; ++r) left[r] = right[r] = vec{};
    for (long p = 0; p < k; ++p) {
        const vec b0 = load(panel + p * NR), b1 = load(panel + p * NR + LANES);
#pragma GCC unroll 12
        for (int r = 0; r < ROWS; ++r) {
            const float x = a[r * lda + p];
            left[r] += x * b0;
            right[r] += x * b1;
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < ROWS; ++r) {
        float* row = c + r * ldc;
        if (columns == NR) {
            store(row, onto ? load(row) + left[r] : left[r]);
            store(row + LANES, onto ? load(row + LANES) + right[r] : right[r]);
        } else {
            float edge[NR];
            store(edge, left[r]);
            store(edge + LANES, right[r]);
            for (long j = 0; j < columns; ++j) row[j] = onto ? row[j] + edge[j] : edge[j];
        }
    }
}

template <int ROWS>
static inline void some(long rows, const float* a, long lda, const float* panel, long k, float* c, long ldc, long columns, bool onto) {
    if constexpr (ROWS > 0) {
        if (rows == ROWS)
            block<ROWS>(a, lda, panel, k, c, ldc, columns, onto);
        else
            some<ROWS - 1>(rows, a, lda, panel, k, c, ldc, columns, onto);
    }
}

// Any number of rows of A times one panel, in blocks of nearly equal size: a short last one would wait for its own additions.
static inline void strip(long m, const float* a, long lda, const float* panel, long k, float* c, long ldc, long columns, bool onto) {
    for (long i = 0, left = (m + MR - 1) / MR; left > 0; --left) {
        const long rows = (m - i + left - 1) / left;
        some<MR>(rows, a + i * lda, lda, panel, k, c + i * ldc, ldc, columns, onto);
        i += rows;
    }
}

// Eight rows of eight numbers, `ld` apart, written as columns: out[p * NR + j] = rows[j * ld + p].
static inline void transpose(const float* rows, long ld, float* out) {
    typedef float eight __attribute__((vector_size(32), aligned(4), may_alias));
    typedef int ints __attribute__((vector_size(32)));
    eight r[8], s[8];
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) r[j] = *(const eight*)(rows + j * ld);
#pragma GCC unroll 4
    for (int j = 0; j < 8; j += 2) {  // pairs of numbers interleaved
        s[j] = __builtin_shuffle(r[j], r[j + 1], (ints){0, 8, 1, 9, 4, 12, 5, 13});
        s[j + 1] = __builtin_shuffle(r[j], r[j + 1], (ints){2, 10, 3, 11, 6, 14, 7, 15});
    }
#pragma GCC unroll 2
    for (int j = 0; j < 8; j += 4) {  // fours
        r[j] = __builtin_shuffle(s[j], s[j + 2], (ints){0, 1, 8, 9, 4, 5, 12, 13});
        r[j + 1] = __builtin_shuffle(s[j], s[j + 2], (ints){2, 3, 10, 11, 6, 7, 14, 15});
        r[j + 2] = __builtin_shuffle(s[j + 1], s[j + 3], (ints){0, 1, 8, 9, 4, 5, 12, 13});
        r[j + 3] = __builtin_shuffle(s[j + 1], s[j + 3], (ints){2, 3, 10, 11, 6, 7, 14, 15});
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {  // halves
        *(eight*)(out + j * NR) = __builtin_shuffle(r[j], r[j + 4], (ints){0, 1, 2, 3, 8, 9, 10, 11});
        *(eight*)(out + (j + 4) * NR) = __builtin_shuffle(r[j], r[j + 4], (ints){4, 5, 6, 7, 12, 13, 14, 15});
    }
}

// Packs rows [p0, p0 + k) of columns [j0, j0 + NR) of B = W^T, where W[N, *] is row-major, as a linear layer holds its weight.
// Columns from n on are filled with the last one; nobody stores what becomes of them.
static inline void pack_transposed(const float* w, long ldw, long n, long j0, long p0, long k, float* panel) {
    const long columns = least(n - j0, NR);
    long p = 0;
    if (columns == NR) {
        const float* rows = w + j0 * ldw + p0;
        for (; p + 8 <= k; p += 8)
            for (long j = 0; j < NR; j += 8) transpose(rows + j * ldw + p, ldw, panel + p * NR + j);
    }
    for (; p < k; ++p)
        for (long j = 0; j < NR; ++j) panel[p * NR + j] = w[(j0 + least(j, columns - 1)) * ldw + p0 + p];
}

}  // namespace gemm
