// A convolution (no padding, any stride) with the ReLU and the 2 × 2 max-pooling behind it, where there are such.
#pragma once

#include <algorithm>

#include "forward_convolution.h"
#include "listed_inputs.h"
#include "pooled_inputs.h"
#include "pooled_weights.h"

namespace fedamd {

class Convolution final : public Layer {
  public:
    Convolution(Shape in, int channels, Kernel kernel, bool bias, bool relu, bool pool)
        : Layer(in, pooled(convolved(in, channels, kernel), pool),
                Index(channels) * (Index(in.channels) * kernel.rows * kernel.columns + bias)),
          conv(convolved(in, channels, kernel)), kernel(kernel), weights(in.channels * kernel.rows * kernel.columns),
          bias(bias), with_relu(relu), pool(pool), forwards(in, conv, out, kernel, bias, relu, pool),
          pooled_weights(in, conv, out, kernel), pooled_inputs(in, out, kernel), listed_inputs(in, out, kernel),
          sparse_weights(pool && pooled_weights.worthwhile()),
          in_lists(pool && listed_inputs.worthwhile() && (in.channels >= LANES || !pooled_inputs.worthwhile())),
          sparse_inputs(pool && !in_lists && pooled_inputs.worthwhile()) {}

    static Shape convolved(Shape in, int channels, Kernel k) {
        return {channels, (in.height - k.rows) / k.stride_rows + 1, (in.width - k.columns) / k.stride_columns + 1};
    }

    bool keeps_marks() const override { return pool; }
    Index scratch() const override {
        const Index strips = SHARED * (strip_rows() * Index(conv.width) + weights);
        return std::max({strips, forwards.scratch(), sparse_weights ? pooled_weights.scratch() : 0,
                         sparse_inputs ? pooled_inputs.scratch() : 0, in_lists ? listed_inputs.scratch() : 0});
    }

    void forward(const Pass& pass) const override { forwards.run(pass); }

    void backward(const Pass& pass) const override {
        if (pass.d_in && !in_lists) std::fill(pass.d_in, pass.d_in + pass.blocks * in.size(), ZERO);
        if (sparse_inputs && pass.d_in)
            pooled_inputs.add_to(pass.d_in, pass.blocks, pass.parameters, pass.d_out, pass.marks, pass.scratch);
        if (in_lists && pass.d_in)
            listed_inputs.put(pass.d_in, pass.samples, pass.parameters, pass.d_out, pass.marks, pass.scratch);
        if (!sparse_weights || (pass.d_in && !sparse_inputs && !in_lists))
            parts(conv.channels, SHARED, [&](int first, int size) {
                dispatch<SHARED>(size, [&](auto O) { backward_channels<O>(pass, first); });
            });
        if (sparse_weights) {
            pooled_weights.add_to(pass.gradient, pass.scale, pass.samples, pass.in, pass.d_out, pass.marks, pass.scratch);
            if (bias) pooled_bias_gradient(pass);
        }
    }

  private:
    static constexpr int SHARED = MANY ? 4 : 8;  // output channels that go through the backward pass together
    static constexpr int STRIP = (16 << 10) / sizeof(Lanes);  // the largest, in `Lanes`: it stays in the first-level cache
    // What the sums of the backward pass's inner loops have room for: output and input channels, places.
    static constexpr int CORRELATED = 4, SCATTERED = MANY ? 3 : 2;
    static constexpr int CORRELATED_PLACES = MANY ? 4 : 1;
    static Shape pooled(Shape shape, bool pool) {
        return pool ? Shape{shape.channels, shape.height / 2, shape.width / 2} : shape;
    }

    void pooled_bias_gradient(const Pass& pass) const {
        const Index windows = Index(out.height) * out.width;
        for (int o = 0; o < out.channels; ++o) {
            Lanes total = ZERO;
            for (int b = 0; b < pass.blocks; ++b)
                for (Index i = b * out.size() + o * windows, end = i + windows; i < end; ++i)
                    total += __builtin_convertvector(pass.marks[i], Choice) < 0 ? ZERO : pass.d_out[i];
            pass.gradient[Index(conv.channels) * weights + o] += pass.scale * sum(total);
        }
    }

    // Otherwise it goes through the image in strips of rows small enough to stay in the first-level cache: the gradient at
    // the convolution's own output is laid out for one strip, then used for the weights and for the input.
    int strip_rows() const {
        const int most = std::max(1, STRIP / (SHARED * conv.width));
        return std::min(conv.height, std::max(2, most - most % 2));  // even: whole windows of the pooling
    }

    template <int O>
    void backward_channels(const Pass& pass, int first) const {
        const float* w = pass.parameters + Index(first) * weights;
        Lanes* strip = pass.scratch;
        Lanes* sums = strip + SHARED * strip_rows() * Index(conv.width);
        std::fill(sums, sums + Index(O) * weights, ZERO);
        Lanes offsets[O] = {};
        for (int b = 0; b < pass.blocks; ++b)
            for (int y = 0; y < conv.height; y += strip_rows()) {
                const int rows = std::min(strip_rows(), conv.height - y);
                FEDAMD_UNROLL
                for (int o = 0; o < O; ++o) {
                    Lanes* to = strip + Index(o) * rows * conv.width;
                    offsets[o] +=
                        pool ? spread(pass, b, first + o, y, rows, to) : take(pass, b, first + o, y, rows, to);
                }
                if (!sparse_weights) weight_gradient(pass.in + b * in.size(), strip, O, y, rows, sums);
                if (pass.d_in && !sparse_inputs && !in_lists) input_gradient(w, strip, O, y, rows, pass.d_in + b * in.size());
            }
        if (sparse_weights) return;
        float* gradient = pass.gradient + Index(first) * weights;
        for (Index i = 0; i < Index(O) * weights; ++i) gradient[i] += pass.scale * sum(sums[i]);
        if (bias)
            FEDAMD_UNROLL
            for (int o = 0; o < O; ++o) pass.gradient[Index(conv.channels) * weights + first + o] += pass.scale * sum(offsets[o]);
    }

    // One channel's rows of the gradient at the convolution's output, and their sum, from the gradient behind pooling …
    Lanes spread(const Pass& pass, int b, int o, int y, int rows, Lanes* to) const {
        if (conv.height % 2 || conv.width % 2) std::fill(to, to + Index(rows) * conv.width, ZERO);
        Lanes total = ZERO;
        for (int row = 0; row + 1 < rows; row += 2) {
            const Index at = b * out.size() + (Index(o) * out.height + (y + row) / 2) * out.width;
            Lanes* upper = to + Index(row) * conv.width;
            Lanes* lower = upper + conv.width;
            for (int x = 0; x < out.width; ++x) {
                const Choice chosen = __builtin_convertvector(pass.marks[at + x], Choice);
                const Lanes d = chosen < 0 ? ZERO : pass.d_out[at + x];
                total += d;
                upper[2 * x] = chosen == 0 ? d : ZERO;
                upper[2 * x + 1] = chosen == 1 ? d : ZERO;
                lower[2 * x] = chosen == 2 ? d : ZERO;
                lower[2 * x + 1] = chosen == 3 ? d : ZERO;
            }
        }
        return total;
    }

    // … or behind ReLU alone.
    Lanes take(const Pass& pass, int b, int o, int y, int rows, Lanes* to) const {
        const Index at = b * out.size() + (Index(o) * out.height + y) * out.width;
        Lanes total = ZERO;
        for (Index i = 0; i < Index(rows) * conv.width; ++i) {
            to[i] = with_relu ? behind_relu(pass.d_out[at + i], pass.out[at + i]) : pass.d_out[at + i];
            total += to[i];
        }
        return total;
    }

    // sums[o][c, i, j] += Σ_{y, x} strip[o][y, x] · in[c, y + i, x + j], still one sum per lane.
    void weight_gradient(const Lanes* image, const Lanes* strip, int outputs, int y, int rows, Lanes* sums) const {
        parts(kernel.columns, 5, [&](int column, int columns) {
            parts(outputs, MANY || columns <= 3 ? CORRELATED : CORRELATED / 2, [&](int first, int size) {
                dispatch<CORRELATED, 5>(size, columns, [&](auto O, auto J) {
                    for (int c = 0; c < in.channels; ++c)
                        for (int i = 0; i < kernel.rows; ++i) {
                            const Index row = Index(c) * in.height + y * kernel.stride_rows + i;
                            const Index weight = (Index(c) * kernel.rows + i) * kernel.columns + column;
                            correlate<O, J>(image + row * in.width + column, strip + Index(first) * rows * conv.width,
                                            rows, sums + first * Index(weights) + weight);
                        }
                });
            });
        });
    }

    // Not inlined: in a larger function the compiler runs out of registers.
    template <int O, int J>
    __attribute__((noinline)) void correlate(const Lanes* image, const Lanes* strip, int rows, Lanes* sums) const {
        Lanes acc[O][J];
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int j = 0; j < J; ++j) acc[o][j] = sums[Index(o) * weights + j];
        constexpr int T = CORRELATED_PLACES;
        const int together = kernel.stride_columns == 1 ? conv.width / T * T : 0;
        for (int row = 0; row < rows; ++row) {
            const Lanes* x = image + Index(row) * kernel.stride_rows * in.width;
            const Lanes* d = strip + Index(row) * conv.width;
            for (int column = 0; column < together; column += T)
                correlate_places<O, J, T>(acc, x + column, d + column, rows);
            for (int column = together; column < conv.width; ++column)
                correlate_places<O, J, 1>(acc, x + Index(column) * kernel.stride_columns, d + column, rows);
        }
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int j = 0; j < J; ++j) sums[Index(o) * weights + j] = acc[o][j];
    }

    // T neighbouring places: every input is loaded once for all of them.
    template <int O, int J, int T>
    __attribute__((always_inline)) void correlate_places(Lanes (&acc)[O][J], const Lanes* x, const Lanes* d,
                                                         int rows) const {
        const Index channel = Index(rows) * conv.width;
        Lanes inputs[T + J - 1];
        FEDAMD_UNROLL
        for (int n = 0; n < T + J - 1; ++n) inputs[n] = x[n];
        FEDAMD_UNROLL
        for (int t = 0; t < T; ++t)
            FEDAMD_UNROLL
            for (int o = 0; o < O; ++o) {
                const Lanes gradient = d[o * channel + t];
                FEDAMD_UNROLL
                for (int j = 0; j < J; ++j) acc[o][j] += gradient * inputs[t + j];
            }
    }

    // d_in[c, y + i, x + j] += Σ_o w[o, c, i, j] · strip[o][y, x]: T neighbouring outputs into T + J − 1 inputs at once.
    void input_gradient(const float* w, const Lanes* strip, int outputs, int y, int rows, Lanes* d_in) const {
        parts(kernel.columns, 5, [&](int column, int columns) {
            parts(in.channels, SCATTERED, [&](int channel, int channels) {
                const float* part = w + Index(channel) * kernel.rows * kernel.columns + column;
                Lanes* to = d_in + (Index(channel) * in.height + y * kernel.stride_rows) * in.width + column;
                dispatch<SCATTERED, 5>(channels, columns,
                               [&](auto C, auto J) { scatter_rows<C, J>(part, strip, outputs, rows, to); });
            });
        });
    }

    template <int C, int J>
    void scatter_rows(const float* w, const Lanes* strip, int outputs, int rows, Lanes* to) const {
        constexpr int T = MANY || J <= 3 ? 4 : 2;  // of which the sums still fit the registers
        const int together = kernel.stride_columns == 1 ? conv.width / T * T : 0;
        for (int row = 0; row < (rows - 1) * kernel.stride_rows + kernel.rows; ++row, to += in.width) {
            for (int x = 0; x < together; x += T) scatter<C, J, T>(w, strip + x, outputs, row, rows, to + x);
            for (int x = together; x < conv.width; ++x)
                scatter<C, J, 1>(w, strip + x, outputs, row, rows, to + Index(x) * kernel.stride_columns);
        }
    }

    // Into input row `row` (counted from the strip's first): every strip row that reaches it, with its kernel row.
    template <int C, int J, int T>
    void scatter(const float* w, const Lanes* strip, int outputs, int row, int rows, Lanes* to) const {
        constexpr int N = T + J - 1;
        const Index plane = Index(in.height) * in.width, area = Index(kernel.rows) * kernel.columns;
        Lanes acc[C][N];
        FEDAMD_UNROLL
        for (int c = 0; c < C; ++c)
            FEDAMD_UNROLL
            for (int n = 0; n < N; ++n) acc[c][n] = to[c * plane + n];
        const int first = std::max(0, (row - kernel.rows + kernel.stride_rows) / kernel.stride_rows);
        const int last = std::min(rows - 1, row / kernel.stride_rows);
        for (int y = first; y <= last; ++y) {
            const int i = row - y * kernel.stride_rows;
            for (int o = 0; o < outputs; ++o) {
                const Lanes* d = strip + (Index(o) * rows + y) * conv.width;
                const float* weight = w + Index(o) * weights + Index(i) * kernel.columns;
                Lanes values[T];
                FEDAMD_UNROLL
                for (int t = 0; t < T; ++t) values[t] = d[t];
                FEDAMD_UNROLL
                for (int c = 0; c < C; ++c)
                    FEDAMD_UNROLL
                    for (int j = 0; j < J; ++j) {
                        const float scalar = weight[c * area + j];
                        FEDAMD_UNROLL
                        for (int t = 0; t < T; ++t) acc[c][t + j] += values[t] * scalar;
                    }
            }
        }
        FEDAMD_UNROLL
        for (int c = 0; c < C; ++c)
            FEDAMD_UNROLL
            for (int n = 0; n < N; ++n) to[c * plane + n] = acc[c][n];
    }

    const Shape conv;  // at the convolution's own output, before pooling
    const Kernel kernel;
    const int weights;  // of one output channel
    const bool bias, with_relu, pool;
    const ForwardConvolution forwards;
    const PooledWeights pooled_weights;
    const PooledInputs pooled_inputs;
    const ListedInputs listed_inputs;
    const bool sparse_weights, in_lists, sparse_inputs;  // whether they are used; lists where channels fill the lanes
};

}  // namespace fedamd
