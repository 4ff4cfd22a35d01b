// One layer of an LSTM or GRU, all time steps in one parallel region.
//
// First the inputs of all steps times the input weights, as one product. Then step by step: each thread owns blocks of NR hidden
// units, multiplies the previous state with its panels of the recurrent weight (packed once, they stay in cache for all steps)
// and applies the gates to its own units; one barrier per step makes the new state visible.
#pragma once
#include <omp.h>

#include <cstring>

#include "fastmath.h"
#include "gemm.h"

namespace recurrent {

constexpr long UNITS = gemm::NR;  // hidden units that a thread works on at a time; the last block may have fewer
constexpr long ROWS = 64;         // of the batch, at a time

// Sizes in elements. Row (b, t) of the input lies at b * in_batch + t * in_time rows, that of the output at b * out_batch + t * out_time.
struct Shape {
    long batch, time, inputs, hidden, in_batch, in_time, out_batch, out_time;
};

// Rows [first, last) of x [rows, inputs] times W^T (packed), into [rows, columns].
static inline void project(const float* x, const float* packed, float* to, long first, long last, long inputs, long columns) {
    using namespace gemm;
    for (long p = 0; p < inputs; p += KC)
        for (long q = 0; q < columns; q += NR)
            strip(last - first, x + first * inputs + p, inputs, packed + q * inputs + p * NR, least(inputs - p, KC),
                  to + first * columns + q, columns, least(columns - q, NR), p > 0);
}

// GATES = 4: LSTM with gates i, f, g, o. GATES = 3: GRU with gates r, z, n.
// x [rows, inputs], w_ih [GATES * hidden, inputs], w_hh [GATES * hidden, hidden], biases of GATES * hidden or null.
// h0, c0 [batch, hidden] initial state (c0 unused by the GRU); out [rows, hidden]; h, c [batch, hidden] final state.
// work: rows * GATES * hidden + GATES * room * (inputs + hidden) + 3 * batch * hidden numbers, where room is hidden rounded up to
// a multiple of UNITS.
template <int GATES>
static void layer(const Shape s, const float* x, const float* w_ih, const float* w_hh, const float* b_ih, const float* b_hh,
                  const float* h0, const float* c0, float* out, float* h, float* c, float* work) {
    const long columns = GATES * s.hidden, rows = s.batch * s.time, state = s.batch * s.hidden;
    const long blocks = (s.hidden + UNITS - 1) / UNITS, room = blocks * UNITS;
    float* gates = work;
    float* packed_x = gates + rows * columns;
    float* packed_h = packed_x + GATES * room * s.inputs;
    float* previous[2] = {packed_h + GATES * room * s.hidden, packed_h + GATES * room * s.hidden + state};
    float* cell = previous[1] + state;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long q = 0; q < columns; q += UNITS)
            gemm::pack_transposed(w_ih, s.inputs, columns, q, 0, s.inputs, packed_x + q * s.inputs);
#pragma omp for schedule(static) collapse(2)
        for (long g = 0; g < GATES; ++g)
            for (long u = 0; u < room; u += UNITS)
                gemm::pack_transposed(w_hh + g * s.hidden * s.hidden, s.hidden, s.hidden, u, 0, s.hidden, packed_h + (g * room + u) * s.hidden);
#pragma omp single
        {
            std::memcpy(previous[0], h0, sizeof(float) * state);
            if (GATES == 4) std::memcpy(cell, c0, sizeof(float) * state);
        }
#pragma omp for schedule(static)
        for (long first = 0; first < rows; first += 48)
            project(x, packed_x, gates, first, gemm::least(first + 48, rows), s.inputs, columns);
        const long threads = omp_get_num_threads(), me = omp_get_thread_num();
        const long begin = blocks * me / threads * UNITS, end = gemm::least(blocks * (me + 1) / threads * UNITS, s.hidden);
        alignas(64) float sums[GATES][UNITS * ROWS];
        for (long t = 0; t < s.time; ++t) {
            const float* before = previous[t % 2];
            float* after = previous[(t + 1) % 2];
            for (long u = begin; u < end; u += UNITS)
                for (long b0 = 0; b0 < s.batch; b0 += ROWS) {
                    const long b1 = gemm::least(b0 + ROWS, s.batch), units = gemm::least(end - u, UNITS);
                    for (int g = 0; g < GATES; ++g)
                        gemm::strip(b1 - b0, before + b0 * s.hidden, s.hidden, packed_h + (g * room + u) * s.hidden, s.hidden,
                                    sums[g], UNITS, UNITS, false);
                    for (long b = b0; b < b1; ++b) {
                        const float* in = gates + (b * s.in_batch + t * s.in_time) * columns + u;
                        const long at = (b - b0) * UNITS, place = b * s.hidden + u;
                        float* to = out + (b * s.out_batch + t * s.out_time) * s.hidden + u;
#pragma omp simd
                        for (long k = 0; k < units; ++k) {
                            float a[GATES], r[GATES];
                            for (int g = 0; g < GATES; ++g) {
                                const long bias = g * s.hidden + u + k;
                                a[g] = in[g * s.hidden + k] + (b_ih ? b_ih[bias] : 0.0f);
                                r[g] = sums[g][at + k] + (b_hh ? b_hh[bias] : 0.0f);
                            }
                            float next;
                            if (GATES == 4) {
                                const float kept = fast_sigmoid(a[1] + r[1]) * cell[place + k];
                                const float fresh = kept + fast_sigmoid(a[0] + r[0]) * fast_tanh(a[2] + r[2]);
                                cell[place + k] = fresh;
                                next = fast_sigmoid(a[GATES - 1] + r[GATES - 1]) * fast_tanh(fresh);
                            } else {
                                const float z = fast_sigmoid(a[1] + r[1]);
                                const float n = fast_tanh(a[2] + fast_sigmoid(a[0] + r[0]) * r[2]);
                                next = n + z * (before[place + k] - n);
                            }
                            after[place + k] = next;
                            to[k] = next;
                        }
                    }
                }
#pragma omp barrier
        }
#pragma omp single
        {
            std::memcpy(h, previous[s.time % 2], sizeof(float) * state);
            if (GATES == 4) std::memcpy(c, cell, sizeof(float) * state);
        }
    }
}

}  // namespace recurrent
