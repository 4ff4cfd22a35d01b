"""The approximations in fastmath.h keep the errors that its comment states, over dense samples of their whole range."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import agents.engineers.offline as offline

HEADERS = Path(offline.__file__).parent / "emit" / "headers"

# Walks through every 331st float32 of both signs, six million of each, and prints the largest error in ULP of the
# float32 nearest to the true value. Results below the smallest normal number are compared absolutely instead.
DRIVER = r"""
#include <cstdio>
#include "fastmath.h"
typedef float (*approximation)(float);
typedef double (*truth)(double);
static double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
static double silu(double x) { return x / (1.0 + std::exp(-x)); }
static double gelu(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }
static double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }
static double mish(double x) { return x * std::tanh(softplus(x)); }
static float softplus1(float x) { return fast_softplus(x, 1.0f, 20.0f); }
static void measure(const char* name, approximation f, truth g, float low, float high) {
    double worst = 0.0, absolute = 0.0;
    for (unsigned bits = 0; bits < 0x7F800000u; bits += 331)
        for (int sign = 0; sign < 2; ++sign) {
            const float x = float_of((int)(bits | (unsigned)sign << 31));
            if (x < low || x > high) continue;
            const double y = g((double)x), seen = f(x);
            const double size = std::fabs(y) < 1.1754944e-38 ? 1.1754944e-38 : std::fabs(y);
            if (size > 3.4e38) continue;
            const double ulp = std::ldexp(1.0, std::ilogb(size) - 23);
            const double error = std::fabs(seen - y) / ulp;
            if (!(error <= worst)) worst = error;
            if (!(std::fabs(seen - y) <= absolute)) absolute = std::fabs(seen - y);
        }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::printf("%s %g %g %d\n", name, worst, absolute, f(nan) != f(nan));
}
int main() {
    measure("exp", fast_exp, std::exp, -104.0f, 88.7f);
    measure("log", fast_log, std::log, 1e-45f, 3.4e38f);
    measure("tanh", fast_tanh, std::tanh, -3.4e38f, 3.4e38f);
    measure("sigmoid", fast_sigmoid, sigmoid, -87.0f, 3.4e38f);
    measure("erf", fast_erf, std::erf, -3.4e38f, 3.4e38f);
    measure("silu", fast_silu, silu, -87.0f, 1e30f);
    measure("expm1", fast_expm1, std::expm1, -1e30f, 88.7f);
    measure("log1p", fast_log1p, std::log1p, -0.9999f, 1e30f);
    measure("softplus", softplus1, softplus, -87.0f, 1e30f);
    measure("mish", fast_mish, mish, -80.0f, 1e30f);
    measure("gelu", fast_gelu, gelu, -1e4f, 4.0f);
    std::printf("limits %d\n", fast_exp(-INFINITY) == 0.0f && fast_exp(INFINITY) == INFINITY && fast_log(0.0f) == -INFINITY &&
        fast_log(INFINITY) == INFINITY && fast_log(-1.0f) != fast_log(-1.0f) && fast_tanh(INFINITY) == 1.0f &&
        fast_tanh(-INFINITY) == -1.0f &&
        fast_erf(INFINITY) == 1.0f && fast_sigmoid(INFINITY) == 1.0f && fast_sigmoid(-INFINITY) == 0.0f);
    return 0;
}
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict[str, list[float]]:
    """The driver's rows: name to largest error in ULP, largest absolute error, and whether NaN stays NaN."""
    folder = tmp_path_factory.mktemp("fastmath")
    (folder / "driver.cpp").write_text(DRIVER)
    flags = ["-O3", "-march=native", "-std=c++17", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
    program = str(folder / "driver")
    subprocess.run(["g++", *flags, f"-I{HEADERS}", "-o", program, str(folder / "driver.cpp")], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in output.splitlines()]
    return {row[0]: [float(v) for v in row[1:]] for row in rows}


def stated() -> dict[str, float]:
    """What the header's comment promises, so that the comment cannot drift from the code."""
    text = re.sub(r"\s*//\s*", " ", (HEADERS / "fastmath.h").read_text().split("#pragma once")[0])
    promise = re.search(r"\(ULP\) of the result: (.*?)\.\s", text + " ")
    assert promise is not None
    return {name: float(ulp) for name, ulp in re.findall(r"(\w+) (\d+(?:\.\d+)?)", promise.group(1))}


def test_the_header_states_an_error_for_each_elementary_function():
    assert {"exp", "log", "tanh", "sigmoid", "erf", "silu", "expm1", "log1p", "softplus", "mish"} <= stated().keys()


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "silu", "expm1", "log1p", "softplus", "mish"])
def test_an_approximation_keeps_its_stated_error(measured, name):
    worst, _, nan_stays = measured[name]
    assert worst <= stated()[name]
    assert nan_stays


def test_gelu_is_right_to_the_absolute_error_that_the_header_states(measured):
    """Its tail is tiny and only matters in sums, so the promise is absolute: about one rounding of 1."""
    _, absolute, nan_stays = measured["gelu"]
    assert nan_stays
    assert absolute <= 2e-7


def test_limits_are_exact(measured):
    assert measured["limits"] == [1.0]
