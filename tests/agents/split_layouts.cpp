// Runs the index arithmetic of split.cuh against what the PTX ISA documents, and its number splitting against float64, on the host.
// Prints "name value" lines: counts of what is wrong, and error ratios. See test_offline_split.py.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "split.cuh"

using namespace split;
static uint32_t bits_of(float x) { uint32_t b; std::memcpy(&b, &x, 4); return b; }
static float float_of(uint32_t b) { float x; std::memcpy(&x, &b, 4); return x; }

constexpr int TILE = 128;

// Lane t of ldmatrix gets, of each matrix, the 32-bit word t % 4 of the row whose address lane 8 * matrix + t / 4 gave.
static void ldmatrix(const std::vector<int>& shared, const int (&address)[32], int (&r)[32][4]) {
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < 4; ++matrix) r[lane][matrix] = shared[address[8 * matrix + lane / 4] + lane % 4];
}

// mma.m16n8k8, .tf32: the fragments as PTX ISA 9.7.14.5.6 draws them, with groupID = lane >> 2 and threadID_in_group = lane % 4.
static void mma(int (&c)[32][4], const int (&a)[32][4], const int (&b)[32][2]) {
    int A[16][8], B[8][8];
    for (int lane = 0; lane < 32; ++lane) {
        const int group = lane >> 2, thread = lane % 4;
        A[group][thread] = a[lane][0], A[group + 8][thread] = a[lane][1], A[group][thread + 4] = a[lane][2], A[group + 8][thread + 4] = a[lane][3];
        B[thread][group] = b[lane][0], B[thread + 4][group] = b[lane][1];
    }
    for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < 4; ++i)
            for (int k = 0; k < 8; ++k) c[lane][i] += A[(lane >> 2) + (i >= 2 ? 8 : 0)][k] * B[k][lane % 4 * 2 + (i & 1)];
}

// One tile of 128 × 128 × 32 as gemm_tf32.cuh walks it, with integers for numbers.
static long wrong_products(bool a_along_k, bool b_along_k) {
    std::mt19937 random(1);
    std::vector<int> a(tile_words(TILE, a_along_k), -999), b(tile_words(TILE, b_along_k), -999), x(TILE * 32), y(TILE * 32);
    for (int row = 0; row < TILE; ++row)
        for (int k = 0; k < 32; ++k) {
            a[tile_word(TILE, a_along_k, row, k)] = x[row * 32 + k] = int(random() % 17) - 8;
            b[tile_word(TILE, b_along_k, row, k)] = y[row * 32 + k] = int(random() % 17) - 8;
        }
    long wrong = 0;
    std::set<int> seen;
    for (int warp = 0; warp < 8; ++warp)
        for (int m = 0; m < 4; ++m)
            for (int j = 0; j < 4; j += 2) {
                const int row0 = warp / 4 * 64 + 16 * m, column0 = warp % 4 * 32 + 8 * j;
                int c[2][32][4] = {};
                for (int k = 0; k < 32; k += 8) {
                    int ra[32][4], rb[32][4], address[32], fb[2][32][2];
                    for (int lane = 0; lane < 32; ++lane) address[lane] = tile_word(TILE, true, row0 + a_lane_row(lane), k + a_lane_k(lane));
                    if (a_along_k) ldmatrix(a, address, ra);
                    for (int lane = 0; lane < 32; ++lane) address[lane] = tile_word(TILE, true, column0 + b_lane_row(lane), k + b_lane_k(lane));
                    if (b_along_k) ldmatrix(b, address, rb);
                    for (int lane = 0; lane < 32; ++lane)
                        for (int i = 0; i < 4; ++i) {
                            if (!a_along_k) ra[lane][i] = a[tile_word(TILE, false, row0 + a_row(lane, i), k + a_k(lane, i))];
                            if (!b_along_k) rb[lane][i] = b[tile_word(TILE, false, column0 + 8 * (i / 2) + b_column(lane, 0), k + b_k(lane, i % 2))];
                            fb[i / 2][lane][i % 2] = rb[lane][i];
                        }
                    for (int side = 0; side < 2; ++side) mma(c[side], ra, fb[side]);
                }
                for (int side = 0; side < 2; ++side)
                    for (int lane = 0; lane < 32; ++lane)
                        for (int i = 0; i < 4; ++i) {
                            const int row = row0 + c_row(lane, i), column = column0 + 8 * side + c_column(lane, i);
                            int right = 0;
                            for (int k = 0; k < 32; ++k) right += x[row * 32 + k] * y[column * 32 + k];
                            wrong += c[side][lane][i] != right;
                            seen.insert(row * TILE + column);
                        }
            }
    return wrong + (TILE * TILE - long(seen.size()));
}

// Lanes of one access that fall into a bank (of 4 bytes) that another lane of it uses for another word.
static int conflicts(const std::vector<int>& words, int width) {
    std::set<int> banks;
    for (int word : words)
        for (int i = 0; i < width; ++i) banks.insert((word + i) % 32);
    return int(words.size()) * width - int(banks.size());
}

static int bank_conflicts() {
    int found = 0;
    for (int k = 0; k < 32; k += 8) {
        for (int matrix = 0; matrix < 4; ++matrix) {
            std::vector<int> a, b;
            for (int lane = 8 * matrix; lane < 8 * matrix + 8; ++lane) {
                a.push_back(tile_word(TILE, true, a_lane_row(lane), k + a_lane_k(lane)));
                b.push_back(tile_word(TILE, true, b_lane_row(lane), k + b_lane_k(lane)));
            }
            found += conflicts(a, 4) + conflicts(b, 4);
        }
        for (int i = 0; i < 4; ++i) {
            std::vector<int> a, b;
            for (int lane = 0; lane < 32; ++lane) {
                a.push_back(tile_word(TILE, false, a_row(lane, i), k + a_k(lane, i)));
                b.push_back(tile_word(TILE, false, b_column(lane, i % 2), k + b_k(lane, i % 2)));
            }
            found += conflicts(a, 1) + conflicts(b, 1);
        }
    }
    for (int first = 0; first < TILE * 8; first += 8) {  // cp.async of 16 bytes, eight lanes at a time
        std::vector<int> words;
        for (int at = first; at < first + 8; ++at) words.push_back(tile_word(TILE, true, at / 8, at % 8 * 4));
        found += conflicts(words, 4);
    }
    return found;
}

// What wgmma reads for row and k of an operand, from its descriptor: groups of 8 rows are a stride apart, rows 128 bytes, and the
// 128-byte swizzle exchanges bits 4 to 6 of the address with bits 7 to 9 by exclusive or.
static long wrong_planes() {
    long wrong = 0;
    const long k_panels = 3;
    std::set<long> places;
    for (long row = 0; row < 256; ++row)
        for (long k = 0; k < 192; ++k)
            for (int plane = 0; plane < 2; ++plane) places.insert(packed_byte(row, k, k_panels, plane));
    wrong += 256 * 192 * 2 - long(places.size()) + (*places.rbegin() + 2 != packed_bytes(256, 192));
    for (int half = 0; half < 2; ++half)
        for (int step = 0; step < 4; ++step) {
            const uint64_t d = descriptor(1024 * 7 + half * 8192) + step * (32 >> 4);
            const long start = long(d & 0x3FFF) << 4, stride = long(d >> 32 & 0x3FFF) << 4;
            wrong += d >> 62 != 1 || (d >> 49 & 7) != 0;
            for (int row = 0; row < 64; ++row)
                for (int k = 0; k < 16; ++k) {
                    long at = start + row / 8 * stride + row % 8 * 128 + k * 2;
                    at ^= (at >> 7 & 7) << 4;
                    wrong += at - 1024 * 7 != plane_byte(half * 64 + row, step * 16 + k);
                }
        }
    std::set<int> seen;
    for (int thread = 0; thread < 128; ++thread)
        for (int i = 0; i < 64; ++i) seen.insert(d_row(thread, i) * 128 + d_column(thread, i));
    return wrong + (64 * 128 - long(seen.size()));
}

static long wrong_tiles() {
    long wrong = 0;
    for (long tiles_m : {1L, 3L, 8L, 21L})
        for (long tiles_n : {1L, 5L, 16L}) {
            std::set<long> seen;
            for (int number = 0; number < tiles_m * tiles_n; ++number) {
                int m, n;
                tile_of(number, tiles_m, tiles_n, m, n);
                wrong += m < 0 || m >= tiles_m || n < 0 || n >= tiles_n;
                seen.insert(m * tiles_n + n);
            }
            wrong += tiles_m * tiles_n - long(seen.size());
        }
    return wrong;
}

static float tf32(float x) { return float_of(tf32_bits(bits_of(x))); }
static float cut_off(float x) { return float_of(bits_of(x) & 0xFFFFE000u); }  // what the tensor core reads of a float32

// The largest relative error of both splits over numbers of many sizes, in units of 2^-24; a float32 rounding makes 1 of it.
static void split_errors(double& of_tf32, double& of_half) {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> mantissa(1, 2), size(-27, 0);
    of_tf32 = of_half = 0;
    for (int i = 0; i < 2000000; ++i) {
        const float x = float(std::ldexp(mantissa(random), int(size(random)))) * (i % 2 ? 1 : -1);
        const float high = tf32(x);
        of_tf32 = std::fmax(of_tf32, std::fabs(double(x) - high - cut_off(x - high)) / std::fabs(x));
        const float scaled = x * float_of(power_bits(TOP));  // the largest of this row is 1
        const _Float16 top = _Float16(scaled), rest = _Float16((scaled - float(top)) * LOW_SCALE);
        of_half = std::fmax(of_half, std::fabs(double(scaled) - double(top) - double(rest) / LOW_SCALE) / std::fabs(scaled));
    }
    of_tf32 *= 1 << 24, of_half *= 1 << 24;
}

static long wrong_scales() {
    long wrong = 0;
    for (uint32_t bits = 1; bits < 0x7F800000u; bits += 4093) {
        const int exponent = scale_exponent(bits);
        const double scaled = double(float_of(bits)) * float_of(power_bits(exponent)), top = std::ldexp(1.0, TOP + 1);
        wrong += scaled >= top || (scaled < top / 2 && exponent != 126);
        wrong += double(float_of(power_bits(exponent))) * float_of(power_bits(-exponent)) != 1.0;
    }
    return wrong + scale_exponent(0) + scalable(0x7F800000u) + scalable(0x7FFFFFFFu);
}

static double truncate(double x) {  // to 24 bits, towards zero, as the tensor core does after adding
    int exponent;
    const double m = std::frexp(x, &exponent);
    return std::ldexp(std::trunc(std::ldexp(m, 24)), exponent - 24);
}

// Root mean square error against float64 of a long dot product whose tensor core sums run over `run` of K, by that of float32 FMAs.
static double error_ratio(bool halves, bool normal, int depth, int run) {
    std::mt19937_64 random(5);
    std::normal_distribution<double> gauss;
    std::uniform_real_distribution<double> uniform(0, 1);
    const int at_once = halves ? 16 : 8;
    double ours = 0, plain = 0;
    for (int sample = 0; sample < 300; ++sample) {
        std::vector<float> x(depth), y(depth);
        for (int k = 0; k < depth; ++k) x[k] = float(normal ? gauss(random) : uniform(random)), y[k] = float(normal ? gauss(random) : uniform(random));
        double truth = 0, main = 0, cross = 0;
        float fma = 0, sum = 0;
        for (int k0 = 0; k0 < depth; k0 += at_once) {
            double high = 0, low1 = 0, low2 = 0;
            for (int k = k0; k < k0 + at_once; ++k) {
                truth += double(x[k]) * y[k];
                fma = std::fmaf(x[k], y[k], fma);
                if (halves) {
                    const float s = float_of(power_bits(TOP - 2)), a = x[k] * s, b = y[k] * s;
                    const double ah = double(_Float16(a)), bh = double(_Float16(b));
                    const double al = double(_Float16((a - float(ah)) * LOW_SCALE)), bl = double(_Float16((b - float(bh)) * LOW_SCALE));
                    high += ah * bh / s / s, low1 += ah * bl / s / s / LOW_SCALE, low2 += al * bh / s / s / LOW_SCALE;
                } else {
                    const double ah = tf32(x[k]), bh = tf32(y[k]), al = cut_off(float(x[k] - ah)), bl = cut_off(float(y[k] - bh));
                    high += ah * bh, low1 += ah * bl, low2 += al * bh;
                }
            }
            if (halves) {
                main = truncate(main + high);
                cross = truncate(truncate(cross + low1) + low2);
            } else {
                main = truncate(truncate(truncate(main + low2) + low1) + high);
            }
            if ((k0 + at_once) % run == 0 || k0 + at_once == depth) sum += float(main), main = 0;
        }
        ours += std::pow(double(float(sum + float(cross))) - truth, 2);
        plain += std::pow(double(fma) - truth, 2);
    }
    return std::sqrt(ours / plain);
}

int main() {
    for (int i = 0; i < 4; ++i) std::printf("products_%d%d %ld\n", i / 2, i % 2, wrong_products(i / 2, i % 2));
    std::printf("bank_conflicts %d\nplanes %ld\ntiles %ld\n", bank_conflicts(), wrong_planes(), wrong_tiles());
    std::printf("scales %ld\n", wrong_scales());
    double of_tf32, of_half;
    split_errors(of_tf32, of_half);
    std::printf("split_tf32 %.3f\nsplit_half %.3f\n", of_tf32, of_half);
    for (int halves = 0; halves < 2; ++halves)
        for (int normal = 0; normal < 2; ++normal)
            for (int run : {16, 32, 64, 128, 4096})
                std::printf("ratio_%s_%s_%d %.3f\n", halves ? "half" : "tf32", normal ? "randn" : "rand", run, error_ratio(halves, normal, 4096, run));
}
