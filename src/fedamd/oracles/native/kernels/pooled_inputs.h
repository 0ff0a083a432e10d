// The input gradient of a convolution with 2 × 2 max-pooling behind it.
//
// Of the four places of a window only the largest has a gradient, and it is another one in every lane. So a window's
// gradient is spread over the patch of inputs below all four places at once: one multiplication for each input, by the
// weight that each lane looks up for its own place, instead of four.
#pragma once

#include <algorithm>

#include "layer.h"

namespace fedamd {

class PooledInputs {
  public:
    // The shapes in front of the convolution and behind the pooling.
    PooledInputs(Shape in, Shape out, Kernel kernel) : in(in), out(out), kernel(kernel) {}

    bool worthwhile() const {
        return FAST_LOOKUP && kernel.columns <= WIDEST && kernel.stride_rows == 1 && kernel.stride_columns == 1;
    }
    Index scratch() const { return tables_size() + Index(out.channels) * (kernel.columns + 2); }  // in `Lanes`

    // Adds the gradient of so many blocks of samples to d_in.
    void add_to(Lanes* d_in, int blocks, const float* weights, const Lanes* d_out, const Marks* marks,
                Lanes* scratch) const {
        Lanes* entries = scratch + tables_size();
        make_tables(weights, reinterpret_cast<float*>(scratch));
        dispatch<WIDEST>(kernel.columns, [&](auto columns) {
            constexpr int WIDTH = columns + 1;
            for (int b = 0; b < blocks; ++b)
                for (int y = 0; y < out.height; ++y)
                    for (int x = 0; x < out.width; ++x) {
                        const Index window = b * out.size() + Index(y) * out.width + x;
                        look_up<WIDTH>(d_out + window, marks + window, entries);
                        Lanes* patch = d_in + b * in.size() + 2 * (Index(y) * in.width + x);
                        for (int c = 0; c < in.channels; ++c, patch += Index(in.height) * in.width)
                            add_channel<WIDTH>(scratch + c * table_size(), entries, patch);
                    }
        });
    }

  private:
    static constexpr int WIDEST = 5, HALF = LANES / 2;

    int rows() const { return kernel.rows + 1; }  // of the patch below a window
    Index table_size() const { return Index(rows()) * out.channels; }
    Index tables_size() const { return in.channels * table_size(); }

    // For each input channel, row of the patch and output channel, the kernel rows that reach it: in the first half of
    // the lanes from the window's lower places, in the second from its upper ones; zeros behind each.
    void make_tables(const float* weights, float* tables) const {
        for (int c = 0; c < in.channels; ++c)
            for (int row = 0; row < rows(); ++row)
                for (int o = 0; o < out.channels; ++o, tables += LANES) {
                    const float* kernels = weights + (Index(o) * in.channels + c) * kernel.rows * kernel.columns;
                    put_row(kernels, row - 1, tables);
                    put_row(kernels, row, tables + HALF);
                }
    }

    void put_row(const float* kernels, int row, float* to) const {
        std::fill_n(to, HALF, 0.0f);
        if (row >= 0 && row < kernel.rows) std::copy_n(kernels + row * kernel.columns, kernel.columns, to);
    }

    // For each output channel of a window its gradient, and for each column of the patch where in the tables to look.
    template <int WIDTH>
    void look_up(const Lanes* d_out, const Marks* marks, Lanes* entries) const {
        const Index windows = Index(out.height) * out.width;
        for (int o = 0; o < out.channels; ++o, entries += WIDTH + 1) {
            const Choice chosen = __builtin_convertvector(marks[o * windows], Choice);
            entries[0] = chosen < 0 ? ZERO : d_out[o * windows];
            const Choice half = (chosen & 2) * (HALF / 2) ^ HALF;
            FEDAMD_UNROLL
            for (int column = 0; column < WIDTH; ++column)
                entries[1 + column] = reinterpret_cast<Lanes>(((column - (chosen & 1)) & (HALF - 1)) | half);
        }
    }

    template <int WIDTH>
    void add_channel(const Lanes* table, const Lanes* entries, Lanes* patch) const {
        parts(rows(), 3, [&](int row, int count) {
            dispatch<3>(count, [&](auto R) {
                add_rows<R, WIDTH>(table + Index(row) * out.channels, entries, patch + Index(row) * in.width);
            });
        });
    }

    template <int R, int WIDTH>
    void add_rows(const Lanes* table, const Lanes* entries, Lanes* patch) const {
        Lanes acc[R][WIDTH];
        FEDAMD_UNROLL
        for (int r = 0; r < R; ++r)
            FEDAMD_UNROLL
            for (int column = 0; column < WIDTH; ++column) acc[r][column] = patch[r * Index(in.width) + column];
        for (int o = 0; o < out.channels; ++o, entries += WIDTH + 1) {
            const Lanes gradient = entries[0];
            FEDAMD_UNROLL
            for (int r = 0; r < R; ++r) {
                const Lanes weights = table[Index(r) * out.channels + o];
                FEDAMD_UNROLL
                for (int column = 0; column < WIDTH; ++column)
                    acc[r][column] += gradient * lookup(weights, reinterpret_cast<Choice>(entries[1 + column]));
            }
        }
        FEDAMD_UNROLL
        for (int r = 0; r < R; ++r)
            FEDAMD_UNROLL
            for (int column = 0; column < WIDTH; ++column) patch[r * Index(in.width) + column] = acc[r][column];
    }

    const Shape in, out;
    const Kernel kernel;
};

}  // namespace fedamd
