"""Convolutions over images in PyTorch's own layout: as a product of the weight with shifted views of the image, or directly."""

from __future__ import annotations

from agents.engineers.offline.emit.epilogue import Product
from agents.engineers.offline.emit.text import Lines
from agents.engineers.offline.regions import Written

PANELS = 8  # of pixels at a time: with KC inputs a packed block of 192 or 256 kB, which stays in L2 for all outputs
Pair = tuple[int, int]
Form = tuple[Pair, Pair, Pair]  # stride, padding, dilation


def emit_convolution(product: Product, form: Form) -> Written:
    """y[n] = W[O, C·kh·kw] · columns(x[n]) and its epilogue. The columns are never written out: each block is packed as it is needed.

    Pointers: x, weight, what `finish` reads, outputs, and the padded image where there is padding.
    """
    (sh, sw), (ph, pw), (dh, dw) = form
    x, w, y = (product.view.tensor(n).shape for n in (product.source, product.weight, product.nodes[0]))
    images, channels, height, width = x
    outputs, _, kh, kw = w
    out_h, out_w = y[2:]
    high, wide = height + 2 * ph, width + 2 * pw
    padded = bool(ph or pw)
    launch = (
        f"Launch: {images} images in blocks of {PANELS} panels of pixels shared out over the threads; each packs its pixels for up to KC "
        f"of the {channels * kh * kw} inputs and uses them for all {outputs} output channels."
    )
    out, tail = product.begin(launch, {"padded"}, "<cstring>", '"fastmath.h"', '"gemm.h"')
    out(f"constexpr long IMAGES = {images}, C = {channels}, HIGH = {high}, WIDE = {wide};  // of the padded input")
    out(f"constexpr long O = {outputs}, KH = {kh}, KW = {kw}, OUT_W = {out_w}, PIXELS = {out_h * out_w}, K = C * KH * KW;\n")
    out(
        "// Rows [p0, p0 + k) of the columns of 16 pixels from `first` on. Pixels of one row lie side by side when the stride is 1."
    )
    with out.block("static inline void pack_pixels(const float* image, long first, long p0, long k, float* panel) {"):
        out("long offset[gemm::NR];")
        with out.block("for (long j = 0; j < gemm::NR; ++j) {"):
            out("const long pixel = gemm::least(first + j, PIXELS - 1);")
            out(f"offset[j] = pixel / OUT_W * {sh * wide} + pixel % OUT_W * {sw};")
        out("const bool side_by_side = offset[gemm::NR - 1] - offset[0] == gemm::NR - 1;")
        with out.block("for (long p = 0; p < k; ++p) {"):
            out("const long c = (p0 + p) / (KH * KW), tap = (p0 + p) % (KH * KW);")
            out(f"const float* from = image + (c * HIGH + tap / KW * {dh}) * WIDE + tap % KW * {dw};")
            out("float* to = panel + p * gemm::NR;")
            with out.block("if (side_by_side) {", ""):
                out("std::memcpy(to, from + offset[0], sizeof(float) * gemm::NR);")
            with out.block("} else {"):
                out("for (long j = 0; j < gemm::NR; ++j) to[j] = from[offset[j]];")
    out()
    extra = ", float* padded" if padded else ""
    with out.block(f'extern "C" void {product.name}(const float* x, const float* w, {tail.declared}{extra}) {{'):
        out("using namespace gemm;")
        with out.block("#pragma omp parallel\n    {"):
            if padded:
                _pad(out, height, width, ph, pw)
            out(f"alignas(64) static thread_local float packed[KC * NR * {PANELS}];")
            out("#pragma omp for schedule(dynamic) collapse(2)")
            out("for (long n = 0; n < IMAGES; ++n) {")
            out.depth += 1
            out(f"for (long first = 0; first < PIXELS; first += NR * {PANELS}) {{")
            out.depth += 1
            out(f"const long end = least(first + NR * {PANELS}, PIXELS);")
            out(f"const float* image = {'padded' if padded else 'x'} + n * C * HIGH * WIDE;")
            with out.block("for (long p = 0; p < K; p += KC) {"):
                out("const long k = least(K - p, KC);")
                with out.block("for (long pixel = first; pixel < end; pixel += NR) {"):
                    out("float* panel = packed + (pixel - first) * KC;")
                    out("pack_pixels(image, pixel, p, k, panel);")
                    out(
                        f"strip(O, w + p, K, panel, k, {tail.accumulator} + n * O * PIXELS + pixel, PIXELS, least(end - pixel, NR), p > 0);"
                    )
            out(tail.call("n * O", "(n + 1) * O", "first", "end"))
            out.depth -= 1
            out("}")
            out.depth -= 1
            out("}")
    scratch = (images * channels * high * wide,) if padded else ()
    return product.end(out, tail, ("fastmath.h", "gemm.h"), scratch)


def _pad(out: Lines, height: int, width: int, ph: int, pw: int) -> None:
    out("#pragma omp for schedule(static)")
    with out.block("for (long plane = 0; plane < IMAGES * C; ++plane) {"):
        out("float* to = padded + plane * HIGH * WIDE;")
        out("std::memset(to, 0, sizeof(float) * HIGH * WIDE);")
        out(f"for (long r = 0; r < {height}; ++r)")
        out(f"    std::memcpy(to + (r + {ph}) * WIDE + {pw}, x + (plane * {height} + r) * {width}, sizeof(float) * {width});")


def emit_depthwise(product: Product, form: Form) -> Written:
    """Each channel has its own small filter: one thread pads a plane into its cache, filters it row by row and finishes it there."""
    (sh, sw), (ph, pw), _ = form
    x, w, y = (product.view.tensor(n).shape for n in (product.source, product.weight, product.nodes[0]))
    images, channels, height, width = x
    kh, kw = w[2:]
    out_h, out_w = y[2:]
    high, wide = height + 2 * ph, width + 2 * pw
    launch = f"Launch: {images} × {channels} planes shared out over the threads; the inner loop is a vector of pixels."
    out, tail = product.begin(launch, set(), "<cstring>", '"fastmath.h"')
    out(f"constexpr long C = {channels}, WIDE = {wide}, OUT_W = {out_w}, PIXELS = {out_h * out_w};\n")
    with out.block(f'extern "C" void {product.name}(const float* x, const float* w, {tail.declared}) {{'):
        out("#pragma omp parallel for schedule(static)")
        with out.block(f"for (long plane = 0; plane < {images} * C; ++plane) {{"):
            out(
                f"static thread_local float image[{high} * WIDE];  // the borders are written as zeros each time, the stack stays small"
            )
            out("std::memset(image, 0, sizeof(image));")
            out(f"for (long r = 0; r < {height}; ++r)")
            out(
                f"    std::memcpy(image + (r + {ph}) * WIDE + {pw}, x + (plane * {height} + r) * {width}, sizeof(float) * {width});"
            )
            out(f"const float* f = w + plane % C * {kh * kw};")
            with out.block(f"for (long r = 0; r < {out_h}; ++r) {{"):
                out(f"float* to = {tail.accumulator} + plane * PIXELS + r * OUT_W;")
                out("#pragma omp simd")
                with out.block("for (long k = 0; k < OUT_W; ++k) {"):
                    out(f"const float* from = image + r * {sh} * WIDE + k * {sw};")
                    terms = [f"f[{a * kw + b}] * from[{a} * WIDE + {b}]" for a in range(kh) for b in range(kw)]
                    out(f"float sum = {terms[0]};")
                    for term in terms[1:]:
                        out(f"sum += {term};")
                    out("to[k] = sum;")
            out(tail.call("plane", "plane + 1", "0", "PIXELS"))
    return product.end(out, tail, ("fastmath.h",))
