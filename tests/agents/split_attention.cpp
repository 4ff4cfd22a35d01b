// Plays attention_half.cuh thread by thread on a CPU. Prints "attention wide worst missing": the flag; the largest error against
// float64, by the largest of the values, in units of 2^-24; and results that were not written or are NaN where float32 has none.
// The headers beside it are those of the templates, rewritten by cuda_on_cpu.py.
#include "tensor_cores_on_cpu.h"

#include "attention_half.cuh"

struct Mask { bool causal, empty_row; };

template <bool EMPTY> struct Scores {
    static constexpr bool EMPTY_IS_ZERO = EMPTY;
    float scale;
    Mask mask;
    struct Row {
        float scale;
        int last;
        float operator()(int key, float sum) const { return key > last ? -INFINITY : sum * scale; }
    };
    Row row(int, int query) const { return {scale, mask.empty_row && query == 1 ? -1 : mask.causal ? query : 1 << 30}; }
};

// Q and K are [outer, rows, inner, width]; V is such, or [outer, inner, width, keys].
template <bool V_ALONG, bool EMPTY>
static void check(int queries, int keys, int width, split::Batch batch, Mask mask, float strange, float spread = 1.0f) {
    std::mt19937 random(3);
    std::normal_distribution<float> gauss;
    const long size = batch.size();
    std::vector<float> q(size * queries * width), k(size * keys * width), v(size * keys * width), out(size * queries * width, NAN);
    for (float& x : q) x = spread * gauss(random);
    for (float& x : k) x = gauss(random);
    for (float& x : v) x = gauss(random);
    k[k.size() / 3] *= strange;
    const long line = batch.inner * width;
    const tf32::Operand a{q.data(), queries, line, queries * line, width}, b{k.data(), keys, line, keys * line, width};
    const tf32::Operand c{v.data(), width, V_ALONG ? keys : line, keys * line, V_ALONG ? long(width) * keys : width};
    std::vector<float> space(half_split::FLAG_FLOATS + half_split::workspace_floats(a, batch, width) +
                             half_split::workspace_floats(b, batch, width) + half_split::workspace_floats(c, batch, keys), NAN);
    const Scores<EMPTY> scores{0.125f, mask};
    half_split::attention::launch<true, true, V_ALONG>(a, b, c, batch, width, mask.causal, space.data(), scores,
                                                       half_split::Result{out.data(), queries * line, width, line}, nullptr);
    double worst = 0;
    long missing = 0;
    for (long number = 0; number < size; ++number)
        for (int row = 0; row < queries; ++row) {
            std::vector<double> weight(keys);
            double top = -INFINITY, all = 0;
            bool strange_row = false;
            for (int key = 0; key < keys; ++key) {
                double sum = 0;
                for (int i = 0; i < width; ++i) sum += double(tf32::element<true>(tf32::matrix(a, batch, number), row, i)) * tf32::element<true>(tf32::matrix(b, batch, number), key, i);
                weight[key] = scores.row(number, row)(key, 0.0f) == 0.0f ? sum * 0.125 : -INFINITY;
                strange_row |= std::isnan(weight[key]) || weight[key] == INFINITY;
                top = std::fmax(top, weight[key]);
            }
            for (double& w : weight) w = std::exp(w - top), all += w;
            for (int i = 0; i < width; ++i) {
                double truth = 0;
                for (int key = 0; key < keys; ++key) truth += weight[key] / all * tf32::element<V_ALONG>(tf32::matrix(c, batch, number), i, key);
                if (EMPTY && top == -INFINITY) truth = 0;
                const float seen = out[number / batch.inner * queries * line + row * line + number % batch.inner * width + i];
                missing += std::isnan(seen) != (std::isnan(truth) || strange_row);
                if (!std::isnan(seen) && !std::isnan(truth)) worst = std::fmax(worst, std::fabs(seen - truth) / 4);
            }
        }
    int wide;
    std::memcpy(&wide, space.data(), sizeof wide);
    std::printf("attention %d %.3f %ld\n", wide, std::ldexp(worst, 24), missing);
}

int main() {
    check<false, true>(140, 200, 64, {2, 2}, {false, false}, 1.0f);  // five key tiles for four stages, six tiles for two blocks
    check<false, true>(300, 300, 20, {1, 1}, {true, false}, 1.0f);  // causal: tiles end before their last key
    check<false, true>(70, 90, 33, {1, 2}, {true, true}, 1.0f);  // a query that sees nothing, odd widths
    check<false, false>(70, 90, 33, {1, 2}, {true, true}, 1.0f);
    check<true, true>(33, 65, 40, {3, 1}, {false, false}, 1.0f, 6.0f);  // values along the keys, scores far apart
    check<false, true>(20, 40, 64, {2, 2}, {false, false}, INFINITY);  // by the plain kernel
    check<true, false>(20, 140, 24, {1, 2}, {true, true}, NAN);
}
