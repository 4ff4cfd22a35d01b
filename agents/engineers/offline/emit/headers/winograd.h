// 3 x 3 convolutions of stride 1 by Winograd's F(2 x 2, 3 x 3): 16 multiplications for four results instead of 36.
//
// The padded image is cut into tiles of 4 x 4 numbers that overlap by two; a tile gives 2 x 2 results. With B, G and A from Lavin and
// Gray (2016), y = A^T [ (G w G^T) . (B^T d B) ] A, where the product in the middle, summed over the input channels, is 16 matrix
// products. A thread takes a row of tiles through all three steps while it is in cache. B and A only add and G halves, so that
// rounding errors stay near those of the direct sum: the root mean square error against float64 was 0.8, 1.2, 1.7 and 2.3 times that
// of PyTorch's convolution at 16, 64, 128 and 256 channels (normal inputs, AVX-512), about 0.7 ULP of the results' root mean square
// at 64. What adding first would spoil is computed directly: rows of tiles with NaN, infinities or numbers beyond LIMIT.
#pragma once
#include <cmath>
#include <cstring>

#include "gemm.h"

namespace winograd {

using gemm::LANES;
using gemm::MR;
using gemm::NR;
using gemm::vec;

constexpr float LIMIT = 1e15f;  // below it no sum of products overflows that the direct way would not overflow, too

// x [IMAGES, C, H, W], w [O, C, 3, 3], y [IMAGES, O, OUT_H, OUT_W], zeros around the image: PH rows and PW columns.
template <long IMAGES, long C, long H, long W, long O, long PH, long PW>
struct Convolution {
    static constexpr long OUT_H = H + 2 * PH - 2, OUT_W = W + 2 * PW - 2;
    static constexpr long TILE_ROWS = (OUT_H + 1) / 2, TILE_COLUMNS = (OUT_W + 1) / 2;
    static constexpr long whole(long n) { return (n + LANES - 1) / LANES * LANES; }
    // Short rows of tiles go side by side into one panel of NR columns; a row is written in whole vectors, so the last needs room.
    static constexpr long together() {
        long rows = 1;
        while (rows * TILE_COLUMNS + whole(TILE_COLUMNS) <= NR) ++rows;
        return rows;
    }
    static constexpr long GROUP = together();
    static constexpr long PARTS = (O + MR - 1) / MR, ROWS = (O + PARTS - 1) / PARTS;  // output channels at a time, nearly evenly
    static constexpr long LINE = (TILE_COLUMNS + NR) * 2 + 2 * LANES + PW;  // numbers of one padded row, and what vectors read beyond it

    // u [16][O][C]: G w G^T. Returns whether every weight is ordinary.
    static bool transform_weights(const float* w, float* u, long o) {
        bool ordinary = true;
#pragma omp simd reduction(&& : ordinary)
        for (long c = 0; c < C; ++c) {
            const float* g = w + (o * C + c) * 9;
            float rows[4][3];
            for (long k = 0; k < 3; ++k) {
                const float a = g[k], b = g[3 + k], d = g[6 + k];
                ordinary = ordinary && std::fabs(a) < LIMIT && std::fabs(b) < LIMIT && std::fabs(d) < LIMIT;
                rows[0][k] = a;
                rows[1][k] = 0.5f * (a + d + b);
                rows[2][k] = 0.5f * (a + d - b);
                rows[3][k] = d;
            }
            for (long r = 0; r < 4; ++r) {
                float* to = u + (4 * r * O + o) * C + c;
                to[0] = rows[r][0];
                to[O * C] = 0.5f * (rows[r][0] + rows[r][2] + rows[r][1]);
                to[2 * O * C] = 0.5f * (rows[r][0] + rows[r][2] - rows[r][1]);
                to[3 * O * C] = rows[r][2];
            }
        }
        return ordinary;
    }

    // One channel of `count` tiles from column `first` of tile row `row`: v[16][C][NR] = B^T d B. `lines` holds four padded rows whose
    // borders are zeros. Returns whether every number is ordinary.
    static bool transform_tiles(const float* plane, long row, long first, long count, float (*lines)[LINE], float* v) {
        static const float zeros[W] = {};
        const float* d[4];
        for (long k = 0; k < 4; ++k) {
            const long at = 2 * row + k - PH;
            d[k] = at >= 0 && at < H ? plane + at * W : zeros;
        }
        int strange = 0;
#pragma omp simd reduction(| : strange)
        for (long i = 0; i < W; ++i) {  // B^T d, on whole rows
            const float a = d[0][i] - d[2][i], b = d[1][i] + d[2][i], c = d[2][i] - d[1][i], e = d[1][i] - d[3][i];
            lines[0][PW + i] = a;
            lines[1][PW + i] = b;
            lines[2][PW + i] = c;
            lines[3][PW + i] = e;
            strange |= !(std::fabs(a) < LIMIT) | !(std::fabs(b) < LIMIT) | !(std::fabs(e) < LIMIT);
        }
        for (long k = 0; k < 4; ++k)
            for (long j = 0; j < count; j += LANES) {  // and times B: columns 2j, 2j + 1, 2j + 2, 2j + 3
                const float* from = lines[k] + 2 * (first + j);
                const vec a = gemm::load(from), b = gemm::load(from + LANES);
                const vec c = gemm::load(from + 2), e = gemm::load(from + LANES + 2);
                const vec d0 = gemm::evens(a, b), d1 = gemm::odds(a, b), d2 = gemm::evens(c, e), d3 = gemm::odds(c, e);
                float* to = v + 4 * k * C * NR + j;
                gemm::store(to, d0 - d2);
                gemm::store(to + C * NR, d1 + d2);
                gemm::store(to + 2 * C * NR, d2 - d1);
                gemm::store(to + 3 * C * NR, d1 - d3);
            }
        return strange == 0;
    }

    // Two rows of results of one channel, from m[16][ROWS][NR]: A^T m A, for `count` tiles.
    static void transform_back(const float* m, long count, float* upper, float* lower) {
        constexpr long STEP = ROWS * NR;
        for (long j = 0; j < count; j += LANES) {
            vec s[2][4];
#pragma GCC unroll 4
            for (long k = 0; k < 4; ++k) {
                const float* from = m + k * STEP + j;
                const vec a = gemm::load(from), b = gemm::load(from + 4 * STEP);
                const vec c = gemm::load(from + 8 * STEP), e = gemm::load(from + 12 * STEP);
                s[0][k] = a + b + c;
                s[1][k] = b - c - e;
            }
            float* to[2] = {upper + 2 * j, lower + 2 * j};
#pragma GCC unroll 2
            for (long r = 0; r < 2; ++r) {
                const vec even = s[r][0] + s[r][1] + s[r][2], odd = s[r][1] - s[r][2] - s[r][3];
                gemm::store(to[r], gemm::lower_pairs(even, odd));
                gemm::store(to[r] + LANES, gemm::upper_pairs(even, odd));
            }
        }
    }

    // Rows [row0, row1) of the result of one image by the definition.
    static void direct(const float* x, const float* w, float* y, long row0, long row1) {
        for (long o = 0; o < O; ++o)
            for (long r = row0; r < row1; ++r)
                for (long k = 0; k < OUT_W; ++k) {
                    float sum = 0.0f;
                    for (long c = 0; c < C; ++c)
                        for (long a = 0; a < 3; ++a)
                            for (long b = 0; b < 3; ++b) {
                                const long i = r + a - PH, j = k + b - PW;
                                if (i >= 0 && i < H && j >= 0 && j < W) sum += w[(o * C + c) * 9 + 3 * a + b] * x[(c * H + i) * W + j];
                            }
                    y[(o * OUT_H + r) * OUT_W + k] = sum;
                }
    }

    // `u`: room for 16 * O * C numbers. `finish(row0, row1, column0, column1)` is called for planes and pixels that are complete.
    template <class Finish>
    static void run(const float* x, const float* w, float* y, float* u, Finish finish) {
        bool ordinary = true;
#pragma omp parallel
        {
#pragma omp for schedule(static) reduction(&& : ordinary)
            for (long o = 0; o < O; ++o) ordinary = transform_weights(w, u, o) && ordinary;
            alignas(64) static thread_local float v[16 * C * NR], m[16 * ROWS * NR], lines[4][LINE];
            alignas(64) float pair[2][2 * NR];
            std::memset(lines, 0, sizeof lines);
#pragma omp for schedule(dynamic) collapse(2)
            for (long n = 0; n < IMAGES; ++n)
                for (long row = 0; row < TILE_ROWS; row += GROUP) {
                    const float* image = x + n * C * H * W;
                    float* result = y + n * O * OUT_H * OUT_W;
                    const long rows = gemm::least(GROUP, TILE_ROWS - row), end = gemm::least(2 * (row + rows), OUT_H);
                    bool fits = ordinary;
                    for (long first = 0; fits && first < TILE_COLUMNS; first += NR) {
                        const long count = gemm::least(TILE_COLUMNS - first, NR);
                        for (long c = 0; c < C; ++c)
                            for (long g = 0; g < rows; ++g)
                                fits = transform_tiles(image + c * H * W, row + g, first, count, lines, v + c * NR + g * TILE_COLUMNS) && fits;
                        for (long o = 0; fits && o < O; o += ROWS) {
                            for (long k = 0; k < 16; ++k)
                                gemm::strip(gemm::least(O - o, ROWS), u + (k * O + o) * C, C, v + k * C * NR, C, m + k * ROWS * NR, NR, NR, false);
                            for (long q = o; q < gemm::least(o + ROWS, O); ++q)
                                for (long g = 0; g < rows; ++g) {
                                    transform_back(m + (q - o) * NR + g * TILE_COLUMNS, count, pair[0], pair[1]);
                                    for (long r = 2 * (row + g); r < gemm::least(2 * (row + g) + 2, OUT_H); ++r)
                                        std::memcpy(result + (q * OUT_H + r) * OUT_W + 2 * first, pair[r & 1],
                                                    sizeof(float) * gemm::least(2 * count, OUT_W - 2 * first));
                                }
                        }
                    }
                    if (!fits) direct(image, w, result, 2 * row, end);
                    finish(n * O, (n + 1) * O, 2 * row * OUT_W, end * OUT_W);
                }
        }
    }
};

}  // namespace winograd
