// A convolution at the four places of a window, with the products that its two columns share (Winograd's minimal filtering
// in one dimension): four multiplications for three kernel columns at two places instead of six, three for two instead of
// four. Every product is part of the left place's sum, of the right place's, of both, or of one less the other; so there
// are four sums for every row of the window, from which the two places follow.
#pragma once

#include <algorithm>

#include "layer.h"

namespace fedamd {

class PairedColumns {
  public:
    // The shapes in front of the convolution and behind the pooling.
    PairedColumns(Shape in, Shape out, Kernel kernel)
        : in(in), out(out), kernel(kernel), twos(kernel.columns % 3 == 0 ? 0 : kernel.columns % 3 == 2 ? 1 : 2),
          threes((kernel.columns - 2 * twos) / 3), counts{threes + twos, threes + twos, threes, threes + twos} {}

    // With a single channel there is little to be shared.
    bool worthwhile() const { return in.channels > 1 && kernel.columns > 1 && kernel.stride_columns == 1; }
    Index scratch() const { return terms() * rows(windows_at_once()) + whole(out.channels * weights()) / LANES; }

    // Takes the weights into the scratch memory, for all blocks to come.
    void prepare(const float* parameters, Lanes* scratch) const {
        parts(out.channels, ROWS, [&](int first, int size) {
            const Index channel = Index(in.channels) * kernel.rows * kernel.columns;
            for (int o = 0; o < size; ++o)
                put_weights(parameters + (first + o) * channel, size, packed(scratch, first) + o);
        });
    }

    // Calls f(O, first of O channels, row, column, sums at the four places of each) for all windows of a block.
    template <class F>
    void run(const Lanes* image, Lanes* scratch, F&& f) const {
        for (int x = 0; x < out.width; ++x)
            parts(out.height, windows_at_once(), [&](int y, int windows) {
                put_terms(image + 2 * (Index(y) * kernel.stride_rows * in.width + x), rows(windows), scratch);
                parts(out.channels, ROWS, [&](int first, int size) {
                    dispatch<ROWS>(size, [&](auto O) {
                        for (int row = 0; row < windows; ++row) {
                            Lanes places[O][4];
                            sum_up<O>(packed(scratch, first), scratch + 2 * row * kernel.stride_rows, rows(windows), places);
                            f(O, first, y + row, x, places);
                        }
                    });
                });
            });
    }

  private:
    enum Sum { LEFT, BOTH, OPPOSED, RIGHT };  // in which places' sums a product is: l, l and r, l less r, r

    Index products() const { return 4 * threes + 3 * twos; }
    Index terms() const { return in.channels * products(); }       // for one image row
    Index weights() const { return terms() * kernel.rows; }        // of one output channel
    Index rows(int windows) const { return Index(2 * windows - 1) * kernel.stride_rows + kernel.rows; }
    // The products of all sums before this one, for one channel.
    int before(int sum) const { return sum == 0 ? 0 : before(sum - 1) + counts[sum - 1]; }

    // Windows one below the other of which all terms stay in the first-level cache.
    int windows_at_once() const {
        const Index fit = (24 << 10) / (terms() * sizeof(Lanes));
        return int(std::clamp<Index>(((fit - kernel.rows) / kernel.stride_rows + 1) / 2, 1, out.height));
    }

    float* packed(Lanes* scratch, int first) const {
        return reinterpret_cast<float*>(scratch + terms() * rows(windows_at_once())) + first * weights();
    }

    // Calls f(sum, which of its products, three or two, first column) for the parts of a kernel row.
    template <class F>
    void each_part(F&& f) const {
        for (int n = 0; n < threes; ++n) f(n, true, 3 * n);
        for (int n = 0; n < twos; ++n) f(threes + n, false, 3 * threes + 2 * n);
    }

    // Of one output channel: sum, input channel, product, kernel row; one every `stride`.
    void put_weights(const float* kernels, int stride, float* to) const {
        const auto put = [&](int sum, int c, int n, int i, float weight) {
            to[(((Index(before(sum)) * in.channels + Index(c) * counts[sum] + n) * kernel.rows) + i) * stride] = weight;
        };
        for (int c = 0; c < in.channels; ++c)
            for (int i = 0; i < kernel.rows; ++i, kernels += kernel.columns)
                each_part([&](int n, bool three, int column) {
                    const float* w = kernels + column;
                    put(LEFT, c, n, i, w[0]);
                    put(BOTH, c, n, i, three ? (w[0] + w[1] + w[2]) / 2 : w[0] + w[1]);
                    if (three) put(OPPOSED, c, n, i, (w[0] - w[1] + w[2]) / 2);
                    put(RIGHT, c, n, i, three ? -w[2] : -w[1]);
                });
    }

    // What the weights are multiplied with, for one column of windows: sum, input channel, product, image row.
    void put_terms(const Lanes* image, Index rows, Lanes* to) const {
        for (int c = 0; c < in.channels; ++c) {
            const Lanes* row = image + Index(c) * in.height * in.width;
            Lanes* at[4];
            for (int sum = 0; sum < 4; ++sum)
                at[sum] = to + (Index(before(sum)) * in.channels + Index(c) * counts[sum]) * rows;
            for (Index y = 0; y < rows; ++y, row += in.width)
                each_part([&](int n, bool three, int column) {
                    const Lanes* d = row + column;
                    const Index place = n * rows + y;
                    at[LEFT][place] = three ? d[0] - d[2] : d[0] - d[1];
                    at[BOTH][place] = three ? d[1] + d[2] : d[1];
                    if (three) at[OPPOSED][place] = d[2] - d[1];
                    at[RIGHT][place] = three ? d[1] - d[3] : d[1] - d[2];
                });
        }
    }

    // Not inlined: in a larger function the compiler runs out of registers.
    template <int O>
    __attribute__((noinline)) void sum_up(const float* w, const Lanes* x, Index rows, Lanes (&places)[O][4]) const {
        Lanes both[O][2] = {}, opposed[O][2] = {}, left[O][2], right[O][2];
        add_products<BOTH>(both, w, x, rows);
        add_products<OPPOSED>(opposed, w, x, rows);
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < 2; ++p) {
                left[o][p] = both[o][p] + opposed[o][p];
                right[o][p] = both[o][p] - opposed[o][p];
            }
        add_products<LEFT>(left, w, x, rows);
        add_products<RIGHT>(right, w, x, rows);
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < 2; ++p) places[o][2 * p] = left[o][p], places[o][2 * p + 1] = right[o][p];
    }

    template <int SUM, int O>
    __attribute__((always_inline)) void add_products(Lanes (&sums)[O][2], const float* w, const Lanes* x,
                                                     Index rows) const {
        Lanes acc[O][2];
        std::memcpy(acc, sums, sizeof acc);
        const Index offset[2] = {0, kernel.stride_rows};
        w += Index(before(SUM)) * in.channels * kernel.rows * O;
        x += Index(before(SUM)) * in.channels * rows;
        for (Index n = 0; n < Index(in.channels) * counts[SUM]; ++n, x += rows, w += kernel.rows * O)
            multiply<O, 2>(acc, w, 1, O, x, offset, 1, kernel.rows);
        std::memcpy(sums, acc, sizeof acc);
    }

    const Shape in, out;
    const Kernel kernel;
    const int twos, threes;  // parts of a kernel row
    const int counts[4];     // products of each sum in a kernel row
};

}  // namespace fedamd
