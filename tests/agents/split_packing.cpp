// Plays the kernels of gemm_half.cuh and gemm_tf32.cuh thread by thread on a CPU. Prints
// "pack form rows depth worst wide wrong": the largest relative error of a number put together from its two terms, in units of
// 2^-24, the flag, and zeros that are not zero; and "product columns a b wide worst missing": the same unit, against the sum of magnitudes, and
// results that were not written once or differ from float32 in NaN or infinity.
// The headers beside it are those of the templates, rewritten by cuda_on_cpu.py.
#include "tensor_cores_on_cpu.h"

#include "gemm_half.cuh"

struct Finish {
    float* out;
    int* written;
    long columns;
    template <int W> void operator()(long row, long column, const float (&sums)[W]) const {
        for (int i = 0; i < W; ++i) out[row * columns + column + i] = sums[i], ++written[row * columns + column + i];
    }
};

// Which numbers of a batch an operand shares: a stride of 0 along the outer or inner of the two.
enum Shares { NONE, INNER, OUTER, BOTH };
template <bool ALONG_K> static tf32::Operand operand(const std::vector<float>& x, long rows, long depth, split::Batch batch, Shares shares) {
    const long size = rows * depth + 8, inner = shares == INNER || shares == BOTH ? 0 : size;  // 8 numbers lie between two matrices
    return {x.data(), rows, ALONG_K ? depth : rows, shares == OUTER || shares == BOTH ? 0 : inner ? batch.inner * size : size, inner};
}

// `columns`: of a tile, 0 for the kernel of tf32 terms; `parts`: of K.
template <int COLUMNS, bool A, bool B, int PARTS = 1>
static void check_product(long m, long n, long depth, float strange, split::Batch batch = {1, 1}, Shares left = NONE, Shares right = NONE) {
    std::mt19937 random(2);
    std::normal_distribution<float> gauss;
    std::vector<float> x(batch.size() * (m * depth + 8)), y(batch.size() * (n * depth + 8)), out(batch.size() * m * n, -7.0f);
    std::vector<int> written(out.size());
    for (float& v : x) v = gauss(random);
    for (float& v : y) v = gauss(random);
    x[m * depth / 2] *= strange;
    const tf32::Operand a = operand<A>(x, m, depth, batch, left), b = operand<B>(y, n, depth, batch, right);
    const Finish finish{out.data(), written.data(), n};
    const long floats = half_split::FLAG_FLOATS + half_split::workspace_floats(a, batch, depth) + half_split::workspace_floats(b, batch, depth);
    std::vector<float> space(floats + (PARTS > 1 ? PARTS * batch.size() * m * n : 0), NAN);
    if constexpr (COLUMNS > 0)
        half_split::launch<A, B, COLUMNS, PARTS>(a, b, batch, depth, space.data(), finish, nullptr);
    else
        tf32::launch<A, B>(a, b, batch, depth, nullptr, finish, nullptr);
    double worst = 0;
    long missing = 0;
    for (long number = 0; number < batch.size(); ++number)
        for (long row = 0; row < m; ++row)
            for (long column = 0; column < n; ++column) {
                float plain = 0;
                double truth = 0, size = 0;
                const float* p = a.data + number / batch.inner * a.outer + number % batch.inner * a.inner;
                const float* q = b.data + number / batch.inner * b.outer + number % batch.inner * b.inner;
                for (long k = 0; k < depth; ++k) {
                    const float u = p[A ? row * depth + k : k * m + row], v = q[B ? column * depth + k : k * n + column];
                    plain = std::fmaf(u, v, plain), truth += double(u) * v, size += std::fabs(double(u) * v);
                }
                const long at = (number * m + row) * n + column;
                const float seen = out[at];
                missing += written[at] < 1 || std::isnan(seen) != std::isnan(plain) || std::isinf(seen) != std::isinf(plain);
                if (std::isfinite(plain)) worst = std::fmax(worst, std::fabs(seen - truth) / size);
            }
    int wide = 0;
    if (COLUMNS > 0) std::memcpy(&wide, space.data(), sizeof wide);
    std::printf("product %d %d %d %d %.3f %ld\n", COLUMNS, A, B, wide, std::ldexp(worst, 24), missing);
}

template <bool ALONG_K> static void check(long rows, long depth, float strange) {
    std::mt19937 random(1);
    std::normal_distribution<float> gauss;
    std::vector<float> x(rows * depth);
    const tf32::Operand operand{x.data(), rows, ALONG_K ? depth : rows};
    std::vector<float> space(half_split::workspace_floats(operand, {1, 1}, depth), NAN);
    auto at = [&](long row, long k) -> float& { return x[ALONG_K ? row * depth + k : k * rows + row]; };
    for (long row = 0; row < rows; ++row)
        for (long k = 0; k < depth; ++k) at(row, k) = row == 3 ? 0.0f : std::ldexp(gauss(random), int(row * 37 % 200) - 100);
    at(rows / 2, depth / 2) *= strange;
    int wide = 0;
    const half_split::Packed p = half_split::in_workspace(space.data(), operand, {1, 1}, depth);
    half_split::pack<ALONG_K>(operand, {1, 1}, depth, p, &wide, nullptr);
    const long panels = split::panels(depth, split::PANEL_K);
    double worst = 0;
    long wrong = 0;
    for (long row = 0; row < rows; ++row)
        for (long k = 0; k < panels * split::PANEL_K && (strange == 1 || row != rows / 2); ++k) {
            __half high, low;
            std::memcpy(&high, p.panels + split::packed_byte(row, k, panels, 0), 2);
            std::memcpy(&low, p.panels + split::packed_byte(row, k, panels, 1), 2);
            const double back = (double(high) + double(low) / split::LOW_SCALE) * p.unscale[row], truth = k < depth ? at(row, k) : 0.0;
            if (truth == 0)
                wrong += back != 0;
            else
                worst = std::fmax(worst, std::fabs(back - truth) / std::fabs(truth));
        }
    std::printf("pack %s %ld %ld %.3f %d %ld\n", ALONG_K ? "along_k" : "along_rows", rows, depth, std::ldexp(worst, 24), wide, wrong);
}

int main() {
    check_product<0, true, true>(130, 131, 72, 1.0f);  // copies of 16 bytes, four tiles with edges, single columns
    check_product<0, true, true>(20, 30, 71, 1.0f);  // copies of 4 bytes, pairs of columns
    check_product<0, false, false>(132, 24, 65, INFINITY);
    check_product<0, true, false>(9, 140, 33, 1.0f);
    check_product<0, false, true>(33, 10, 40, 3e38f);
    check_product<0, true, false>(20, 24, 40, INFINITY, {2, 3}, NONE, OUTER);
    check_product<128, true, true>(300, 131, 450, 1.0f);  // six tiles for two blocks, eight panels for three stages
    check_product<128, true, false>(130, 140, 190, 1.0f);
    check_product<128, false, true>(70, 130, 64, INFINITY);  // which gemm_tf32.cuh does instead
    check_product<64, true, true>(140, 150, 200, 1.0f);  // narrow tiles, the last of a panel's second half alone
    check_product<64, false, false>(70, 65, 330, 1.0f);
    check_product<128, true, true>(40, 150, 64, 1.0f, {3, 1});  // a batch, one panel along k each
    check_product<64, true, false>(130, 64, 100, 1.0f, {2, 3}, NONE, INNER);
    check_product<64, false, true>(33, 70, 90, 1.0f, {2, 2}, OUTER, BOTH);
    check_product<64, true, false>(20, 30, 70, INFINITY, {2, 2}, INNER, NONE);  // the whole batch by gemm_tf32.cuh
    check_product<64, true, true, 3>(70, 67, 450, 1.0f);  // parts of two and three panels, single columns
    check_product<128, true, false, 2>(130, 60, 129, 1.0f, {1, 2}, NONE, BOTH);
    check_product<64, true, true, 2>(20, 30, 128, NAN);
    for (float strange : {1.0f, INFINITY, 1e30f}) {
        check<true>(3, 9000, strange);  // a block for each row, which it reads twice
        check<true>(5, 3000, strange);  // a block for each row
        check<true>(11, 700, strange);  // a warp for each row
        check<true>(70, 131, strange);  // part of a warp for each row
        check<false>(70, 131, strange);
    }
}
