// A depthwise convolution: every result sums over a window of one channel. A thread makes F::rows results, one below the other, and
// walks down their windows once: a number that it reads goes into all the sums that need it, which are registers, as the filter is.
// Neighbouring threads have neighbouring columns, or channels where these lie side by side, so that a warp reads whole lines; what
// windows of neighbours share comes from the first-level cache.
#pragma once

namespace depthwise {

// F: images, channels (of the result), multiplier (results of a channel), height, width, and as out_height, out_width; kernel_,
// stride_, dilation_, padding_ y and x; rows; channels_last; the strides from_image, from_channel, from_row, from_column of the
// operand, in numbers. Finish takes the sum of a row and column of the result as it lies in memory: of an image's channel and a pixel,
// or of an image's pixel and a channel.
template <class F, class Finish>
static __global__ void __launch_bounds__(256) kernel(const float* __restrict__ x, const float* __restrict__ w, const Finish finish) {
    constexpr int STRIPS = (F::out_height + F::rows - 1) / F::rows;
    const long item = blockIdx.x * 256L + threadIdx.x;
    if (item >= long(F::images) * F::channels * STRIPS * F::out_width) return;
    int channel, column, strip, image;
    if (F::channels_last) {
        const int place = int(item / F::channels);
        channel = int(item % F::channels), column = place % F::out_width;
        strip = place / F::out_width % STRIPS, image = place / F::out_width / STRIPS;
    } else {
        const int place = int(item / F::out_width), plane = place / STRIPS;
        column = int(item % F::out_width), strip = place % STRIPS;
        channel = plane % F::channels, image = plane / F::channels;
    }
    const int top = strip * F::rows * F::stride_y - F::padding_y, left = column * F::stride_x - F::padding_x;
    x += image * long(F::from_image) + channel / F::multiplier * long(F::from_channel);
    float filter[F::kernel_y][F::kernel_x];
#pragma unroll
    for (int i = 0; i < F::kernel_y; ++i)
#pragma unroll
        for (int j = 0; j < F::kernel_x; ++j) filter[i][j] = w[(channel * F::kernel_y + i) * F::kernel_x + j];
    float sums[F::rows] = {};
    constexpr int REACH = (F::rows - 1) * F::stride_y + (F::kernel_y - 1) * F::dilation_y + 1;
#pragma unroll
    for (int r = 0; r < REACH; ++r) {
        const bool inside = top + r >= 0 && top + r < F::height;
        float at[F::kernel_x];
#pragma unroll
        for (int j = 0; j < F::kernel_x; ++j) {
            const int place = left + j * F::dilation_x;
            at[j] = inside && place >= 0 && place < F::width ? x[(top + r) * long(F::from_row) + place * long(F::from_column)] : 0.0f;
        }
#pragma unroll
        for (int s = 0; s < F::rows; ++s) {
            const int reached = r - s * F::stride_y, i = reached / F::dilation_y;
            if (reached >= 0 && reached % F::dilation_y == 0 && i < F::kernel_y) {
#pragma unroll
                for (int j = 0; j < F::kernel_x; ++j) sums[s] += at[j] * filter[i < F::kernel_y ? i : 0][j];
            }
        }
    }
#pragma unroll
    for (int s = 0; s < F::rows; ++s) {
        const int row = strip * F::rows + s;
        if (row >= F::out_height) break;
        const float sum[1] = {sums[s]};
        const int pixel = row * F::out_width + column, plane = image * F::channels + channel;
        if (F::channels_last)
            finish(long(image) * (F::out_height * F::out_width) + pixel, long(channel), sum);
        else
            finish(long(plane), long(pixel), sum);
    }
}

}  // namespace depthwise
