// Vectorisable float32 mathematics: branch-free polynomials that the compiler turns into SIMD inside `#pragma omp simd` loops.
// Errors are the largest seen against double precision over dense samples of the whole range, in units in the last place
// (ULP) of the result: exp 1.1, log 1, tanh 1.5, sigmoid 2.5, erf 1.3, silu 2.5, expm1 4, log1p 2.5, softplus 3, mish 4. NaN
// stays NaN; infinities give their limits. GELU is right to 2e-7 absolute.
// Nothing here needs -ffast-math, so the rest of the process keeps IEEE arithmetic.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#pragma omp declare reduction(nan_max : float, double : omp_out = omp_in > omp_out || omp_in != omp_in ? omp_in : omp_out) \
    initializer(omp_priv = -std::numeric_limits<float>::infinity())
#pragma omp declare reduction(nan_min : float, double : omp_out = omp_in < omp_out || omp_in != omp_in ? omp_in : omp_out) \
    initializer(omp_priv = std::numeric_limits<float>::infinity())

static inline int bits_of(float x) { int i; std::memcpy(&i, &x, 4); return i; }
static inline float float_of(int i) { float x; std::memcpy(&x, &i, 4); return x; }

// e^x. Splits x = n ln2 + r with |r| <= ln2/2, a polynomial for e^r, and 2^n in two factors so that it may be denormal.
static inline float fast_exp(float x) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + 12582912.0f;  // adding 1.5 * 2^23 rounds to the nearest integer
    const float n = shifted - 12582912.0f;
    float r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    float q = 1.395051244e-03f;
    q = q * r + 8.368902992e-03f;
    q = q * r + 4.166620548e-02f;
    q = q * r + 1.666651873e-01f;
    q = q * r + 5.000000095e-01f;
    const float p = q * (r * r) + r + 1.0f;
    const int k = bits_of(shifted) - 0x4B400000;
    const int half = k >> 1;
    return p * float_of((half + 127) << 23) * float_of((k - half + 127) << 23);
}

// Natural logarithm. x = m 2^k with m in [sqrt(1/2), sqrt(2)); log(x) = k ln2 + log(m).
static inline float fast_log(float x) {
    const float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
    const int bits = bits_of(scaled) - 0x3F3504F3;
    const float k = (float)(bits >> 23) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    const float f = float_of((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
    float q = -7.646037939e-02f;
    q = q * f + 1.277908815e-01f;
    q = q * f - 1.316419859e-01f;
    q = q * f + 1.419970014e-01f;
    q = q * f - 1.662276407e-01f;
    q = q * f + 2.000129249e-01f;
    q = q * f - 2.500083798e-01f;
    q = q * f + 3.333333120e-01f;
    const float square = f * f;
    float y = q * f * square - 2.12194440e-4f * k;
    y = y - 0.5f * square + f + 0.693359375f * k;
    y = x == std::numeric_limits<float>::infinity() ? x : y;
    y = x == 0.0f ? -std::numeric_limits<float>::infinity() : y;
    return x >= 0.0f ? y : std::numeric_limits<float>::quiet_NaN();
}

static inline float clamp_low(float x, float low) { return x < low ? low : x; }
static inline float clamp_high(float x, float high) { return x > high ? high : x; }

static inline float fast_sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

// tanh. A polynomial near zero, 1 - 2 / (e^2|x| + 1) elsewhere.
static inline float fast_tanh(float x) {
    const float a = std::fabs(x);
    const float s = x * x;
    float q = -6.282466729e-03f;
    q = q * s + 2.107775339e-02f;
    q = q * s - 5.385385664e-02f;
    q = q * s + 1.333260167e-01f;
    q = q * s - 3.333331805e-01f;
    const float near = q * s * x + x;
    const float far = 1.0f - 2.0f / (fast_exp(2.0f * a) + 1.0f);
    return a < 0.55f ? near : std::copysign(far, x);
}

// The error function. x + x p(x^2) near zero, 1 - e^-g(|x|) elsewhere.
static inline float fast_erf(float x) {
    const float a = std::fabs(x);
    const float s = x * x;
    float q = -5.976893803e-04f;
    q = q * s + 4.990980254e-03f;
    q = q * s - 2.676556700e-02f;
    q = q * s + 1.128180277e-01f;
    q = q * s - 3.761249432e-01f;
    q = q * s + 1.283791500e-01f;
    const float near = q * x + x;
    const float t = a > 4.1f ? 4.1f : a;
    float g = -1.949468206e-04f;
    g = g * t + 3.033692979e-03f;
    g = g * t - 2.218977885e-02f;
    g = g * t + 1.038563784e-01f;
    g = g * t + 6.372657481e-01f;
    g = g * t + 1.127627403e+00f;
    g = g * t + 2.070079810e-04f;
    const float far = std::copysign(1.0f - fast_exp(-g), x);
    const float y = a < 0.92f ? near : far;
    return x != x ? x : y;
}

// GELU = x Phi(x) = max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), which cancels nowhere. erfc(t) is e^(-t h(t)) with a polynomial h on
// [0, 4.1]; beyond, it is below half a rounding of x. The exponent stays within -18, so 2^n needs no care.
static inline float fast_gelu(float x) {
    const float a = std::fabs(x);
    const float t = a * 0.70710678f;
    float h = 3.144015829e-05f;
    h = h * t - 3.088019958e-04f;
    h = h * t + 1.032400623e-03f;
    h = h * t + 5.369356548e-04f;
    h = h * t - 1.958396271e-02f;
    h = h * t + 1.029196145e-01f;
    h = h * t + 6.365977332e-01f;
    h = h * t + 1.128380252e+00f;
    const float g = -h * t;
    const float shifted = g * 1.44269504f + 12582912.0f;
    const float n = shifted - 12582912.0f;
    const float r = (g - n * 0.693359375f) + n * 2.12194440e-4f;
    float q = 1.395051244e-03f;
    q = q * r + 8.368902992e-03f;
    q = q * r + 4.166620548e-02f;
    q = q * r + 1.666651873e-01f;
    q = q * r + 5.000000095e-01f;
    const float e = (q * (r * r) + r + 1.0f) * float_of((int)((unsigned)bits_of(shifted) << 23) + 0x3F800000);
    const float positive = x < 0.0f ? 0.0f : x;
    const float y = positive - 0.5f * a * e;
    return t < 4.1f ? y : x * (x < 0.0f ? 0.0f : 1.0f);  // -inf gives NaN, as PyTorch's own product does
}

// The tanh form of GELU; 0.5 (1 + tanh(u)) is written as sigmoid(2u), which is exact and cheaper.
static inline float fast_gelu_tanh(float x) {
    const float u = 0.79788456f * (x + 0.044715f * x * x * x);
    return x * fast_sigmoid(2.0f * u);
}

static inline float fast_silu(float x) { return x / (1.0f + fast_exp(-x)); }

// log(1 + e^(beta x)) / beta, and x itself above the threshold, as PyTorch defines it.
static inline float fast_log1p(float x) {
    const float u = 1.0f + x;  // the rounding of u is corrected by the factor x / (u - 1)
    const float d = u - 1.0f;
    const float y = fast_log(u) * (x / (d == 0.0f ? 1.0f : d));
    return d == 0.0f ? x : u == std::numeric_limits<float>::infinity() ? u : y;
}

static inline float fast_softplus(float x, float beta, float threshold) {
    const float z = x * beta;
    return z > threshold ? x : fast_log1p(fast_exp(z)) / beta;
}

// x tanh(log(1 + e^x)) with one exponential: the tangent is n / (n + 2) for n = e^x (e^x + 2).
static inline float fast_mish(float x) {
    const float e = fast_exp(x), n = e * (e + 2.0f);
    return x > 20.0f ? x : x * (n / (n + 2.0f));
}

// e^x - 1 without cancellation near zero.
static inline float fast_expm1(float x) {
    float q = 1.991786181e-04f;
    q = q * x + 1.394610828e-03f;
    q = q * x + 8.333265361e-03f;
    q = q * x + 4.166626939e-02f;
    q = q * x + 1.666666686e-01f;
    q = q * x + 5.000000078e-01f;
    const float near = q * (x * x) + x;
    return std::fabs(x) < 0.34f ? near : fast_exp(x) - 1.0f;
}
