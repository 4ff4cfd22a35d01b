// How float32 operands are cut into parts that tensor cores multiply exactly, and where the parts lie: index arithmetic and
// number splitting for gemm_tf32.cuh and gemm_half.cuh. Plain C++ on the host too, so that all of it is tested without a GPU.
#pragma once
#include <cstdint>
#ifdef __CUDACC__
#define SPLIT_FUNCTION __host__ __device__ __forceinline__ constexpr
#else
#define SPLIT_FUNCTION inline constexpr
#endif

namespace split {

// Fragments of mma.m16n8k8 with tf32 operands (PTX ISA, "Matrix Fragments for mma.m16n8k8"): which element of a tile a lane
// holds in its i-th register. A is 16 × 8 (i < 4), B is 8 × 8 (i < 2), C and D are 16 × 8 (i < 4).
SPLIT_FUNCTION int a_row(int lane, int i) { return lane / 4 + 8 * (i % 2); }
SPLIT_FUNCTION int a_k(int lane, int i) { return lane % 4 + 4 * (i / 2); }
SPLIT_FUNCTION int b_column(int lane, int) { return lane / 4; }
SPLIT_FUNCTION int b_k(int lane, int i) { return lane % 4 + 4 * i; }
SPLIT_FUNCTION int c_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
SPLIT_FUNCTION int c_column(int lane, int i) { return lane % 4 * 2 + i % 2; }

// A tile of `rows` × 32 floats in shared memory, as gemm_tf32.cuh keeps it. An operand that runs along k in global memory stays
// so: a row is eight chunks of 16 bytes, and chunk c of row r lies at c ^ (r % 8), so that the eight rows of one ldmatrix phase
// hit different banks. One that runs along its rows lies k by k, with 8 floats between, so that a warp's 8 rows × 4 k do.
constexpr int TILE_K = 32;
SPLIT_FUNCTION int line_words(int rows) { return rows + 8; }
SPLIT_FUNCTION int tile_words(int rows, bool along_k) { return along_k ? rows * TILE_K : line_words(rows) * TILE_K; }
SPLIT_FUNCTION int tile_word(int rows, bool along_k, int row, int k) {
    return along_k ? row * TILE_K + ((k / 4) ^ (row % 8)) * 4 + k % 4 : k * line_words(rows) + row;
}

// ldmatrix.x4 reads four matrices of 8 rows × 16 bytes; lane l names row l % 8 of matrix l / 8. For A they are the four registers
// of one fragment, for B the two registers of two neighbouring fragments. Both add to the fragment's first row and first k.
SPLIT_FUNCTION int a_lane_row(int lane) { return lane % 8 + 8 * (lane / 8 % 2); }
SPLIT_FUNCTION int a_lane_k(int lane) { return 4 * (lane / 16); }
SPLIT_FUNCTION int b_lane_row(int lane) { return lane % 8 + 8 * (lane / 16); }
SPLIT_FUNCTION int b_lane_k(int lane) { return 4 * (lane / 8 % 2); }

// Packed operands of gemm_half.cuh: panels of 128 rows × 64 k, each plane of a panel the very image that wgmma reads from shared
// memory with the 128-byte swizzle (PTX ISA, "Asynchronous warpgroup-level matrix shared memory layout"): row after row of 128
// bytes, chunk c of 16 bytes at c ^ (r % 8). The high plane of a panel is followed by its low plane, panels run along k first.
constexpr int PANEL_ROWS = 128, PANEL_K = 64, PLANE_BYTES = PANEL_ROWS * PANEL_K * 2, PANEL_BYTES = 2 * PLANE_BYTES;
SPLIT_FUNCTION long panels(long count, int size) { return (count + size - 1) / size; }
SPLIT_FUNCTION int plane_byte(int row, int k) { return row * 128 + ((k / 8) ^ (row % 8)) * 16 + k % 8 * 2; }
SPLIT_FUNCTION long packed_byte(long row, long k, long k_panels, int plane) {
    return (row / PANEL_ROWS * k_panels + k / PANEL_K) * PANEL_BYTES + plane * PLANE_BYTES +
           plane_byte(int(row % PANEL_ROWS), int(k % PANEL_K));
}
SPLIT_FUNCTION long packed_bytes(long rows, long depth) {
    return panels(rows, PANEL_ROWS) * panels(depth, PANEL_K) * PANEL_BYTES;
}

// The descriptor of such a plane for wgmma, from its byte address in shared memory: k-major, groups of 8 rows 1024 bytes apart.
// A step of 16 along k adds 32 bytes, 64 rows add 8192.
SPLIT_FUNCTION uint64_t descriptor(uint32_t address) {
    return uint64_t(address >> 4 & 0x3FFF) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

// The result of wgmma.m64n128 or m64n64: which element thread t of a warpgroup holds in its i-th register.
SPLIT_FUNCTION int d_row(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2); }
SPLIT_FUNCTION int d_column(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

// Products of a batch: outer × inner of them, the results one after the other.
struct Batch {
    long outer, inner;
    SPLIT_FUNCTION long size() const { return outer * inner; }
};

// Tiles of the result in an order that keeps operands in the L2 cache: bands of GROUP tile rows, each walked column by column.
#ifndef SPLIT_GROUP  // what tuning varies is set before the headers are included
#define SPLIT_GROUP 8
#endif
constexpr int GROUP = SPLIT_GROUP;
SPLIT_FUNCTION void tile_of(int number, int tiles_m, int tiles_n, int& m, int& n) {
    const int band = number / (GROUP * tiles_n), first = band * GROUP;
    const int height = tiles_m - first < GROUP ? tiles_m - first : GROUP;
    const int inside = number - band * GROUP * tiles_n;
    m = first + inside % height;
    n = inside / height;
}

// float32 as two tf32 terms: the nearest number with 10 bits after the leading one, and the rest, of which the tensor core drops
// at most the last bit. Bits in, bits out. A number that is not finite, or rounds to none, leaves a rest that is NaN.
SPLIT_FUNCTION uint32_t tf32_bits(uint32_t bits) { return (bits + 0x1000u) & 0xFFFFE000u; }

// float32 as two fp16 terms, after scaling by a power of two for each row, such that its largest number lies in [2^14, 2^15).
// Then numbers down to 2^-28 of that keep 22 bits, and nothing overflows. The low term is kept times 2^11.
constexpr int TOP = 14;
constexpr float LOW_SCALE = 2048.0f, SMALLEST = 0x1p-14f;
SPLIT_FUNCTION int exponent_of(uint32_t bits) { return int(bits >> 23 & 0xFF) - 127; }
SPLIT_FUNCTION uint32_t power_bits(int exponent) { return uint32_t(exponent + 127) << 23; }
// Whether a row with this largest magnitude (as bits) can be scaled: any but one that holds infinity or NaN.
SPLIT_FUNCTION bool scalable(uint32_t largest) { return largest < 0x7F800000u; }
// The power of two that scales it; it and what undoes it are ordinary numbers, so rows of denormal numbers are scaled less.
SPLIT_FUNCTION int scale_exponent(uint32_t largest) {
    return largest == 0 || !scalable(largest) ? 0 : TOP - exponent_of(largest) > 126 ? 126 : TOP - exponent_of(largest);
}
// How many nonzero numbers of a row of `depth` may lie below 2^-28 of its largest before the split counts as too coarse.
SPLIT_FUNCTION long most_small(long depth) { return depth / 256 + 4; }

}  // namespace split
