// The forward pass of a convolution with the ReLU and the 2 × 2 max-pooling behind it, where there are such.
#pragma once

#include <algorithm>

#include "layer.h"
#include "paired_columns.h"
#include "square_tiles.h"

namespace fedamd {

class ForwardConvolution {
  public:
    // The shapes in front of the convolution, behind it, and behind the pooling.
    ForwardConvolution(Shape in, Shape conv, Shape out, Kernel kernel, bool bias, bool relu, bool pool)
        : in(in), conv(conv), out(out), kernel(kernel), weights(in.channels * kernel.rows * kernel.columns), bias(bias),
          with_relu(relu), pool(pool), pairs(in, out, kernel), squares(in, out, kernel), windows(out),
          squared(pool && squares.worthwhile()), paired(pool && !squared && pairs.worthwhile()) {}

    Index scratch() const {  // in `Lanes`
        if (squared) return squares.scratch() + 2 * windows.stride();
        return in.size() + whole(Index(conv.channels) * weights) / LANES + (paired ? pairs.scratch() : 0);
    }

    void run(const Pass& pass) const {
        if (squared) return squared_blocks(pass);
        pack(pass);
        if (paired) pairs.prepare(pass.parameters, for_pairs(pass));
        for (int b = 0; b < pass.blocks; ++b) {
            const int samples = pass.samples - b * LANES;
            if (pool && 4 * samples <= LANES)
                narrow_block<4>(pass, b);
            else if (pool && 2 * samples <= LANES)
                narrow_block<2>(pass, b);
            else if (paired)
                paired_block(pass, b);
            else
                whole_block(pass, b);
        }
    }

  private:
    // O channels at P places, place p being `offset[p]` behind x.
    template <int O, int P>
    __attribute__((always_inline)) void convolve(Lanes (&acc)[O][P], const float* w, const Lanes* x,
                                                 const Index (&offset)[P]) const {
        for (int c = 0; c < in.channels; ++c)
            for (int i = 0; i < kernel.rows; ++i) {
                const Lanes* row = x + (Index(c) * in.height + i) * in.width;
                multiply<O, P>(acc, w, 1, O, row, offset, 1, kernel.columns);
                w += O * kernel.columns;
            }
    }

    float* packed(const Pass& pass) const { return reinterpret_cast<float*>(pass.scratch + in.size()); }

    Lanes* for_pairs(const Pass& pass) const {
        return pass.scratch + in.size() + whole(Index(conv.channels) * weights) / LANES;
    }

    // The weights of channels that go together, side by side.
    void pack(const Pass& pass) const {
        parts(conv.channels, ROWS, [&](int first, int size) {
            float* to = packed(pass) + Index(first) * weights;
            for (int o = 0; o < size; ++o)
                for (int i = 0; i < weights; ++i) to[Index(i) * size + o] = pass.parameters[Index(first + o) * weights + i];
        });
    }

    void paired_block(const Pass& pass, int b) const {
        pairs.run(pass.in + b * in.size(), for_pairs(pass), [&](auto O, int channel, int y, int x, const auto& places) {
            for (int o = 0; o < O; ++o)
                if (pass.marks)
                    pool_window<true>(pass, b, channel + o, y, x, places[o]);
                else
                    pool_window<false>(pass, b, channel + o, y, x, places[o]);
        });
    }

    // One sample after the other, with channels in the lanes.
    void squared_blocks(const Pass& pass) const {
        float* values = reinterpret_cast<float*>(pass.scratch + squares.scratch());
        float* places = values + windows.stride() * LANES;
        std::fill_n(values, 2 * windows.stride() * LANES, 0.0f);  // lanes without a sample
        squares.prepare(pass.parameters, pass.scratch);
        const float* offsets = pass.parameters + Index(conv.channels) * weights;
        for (int b = 0; b < pass.blocks; ++b) {
            const int samples = std::min(LANES, pass.samples - b * LANES);
            squares.run(pass.in + b * in.size(), samples, pass.scratch, [&](int s, int window, int channel, const auto& sums) {
                const Pooled pooled = pool_places(sums, bias ? load(offsets + channel) : ZERO);
                const Index at = s * windows.stride() + Index(window) * out.channels + channel;
                std::memcpy(values + at, &pooled.value, sizeof(Lanes));
                std::memcpy(places + at, &pooled.mark, sizeof(Lanes));
            });
            windows.to_lanes(values, pass.out + b * out.size());
            if (pass.marks)
                windows.each_to_lanes(places, [&](Index i, Lanes marks) {
                    pass.marks[b * out.size() + i] = __builtin_convertvector(reinterpret_cast<Choice>(marks), Marks);
                });
        }
    }

    void whole_block(const Pass& pass, int b) const {
        each_row([&](auto O, const Row& row) {
            if (!pool)
                plain_row<O>(pass, b, row);
            else if (pass.marks)
                pooled_row<O, true>(pass, b, row);
            else
                pooled_row<O, false>(pass, b, row);
        });
    }

    // Columns x … end − 1 of an output row, from a channel on.
    struct Row {
        int channel, y, x, end;
    };

    // Cuts the output into such rows of O channels each, and calls f(O, row).
    template <class F>
    void each_row(F&& f) const {
        for (int y = 0; y < out.height; ++y)
            parts(out.width, columns_at_once(), [&](int x, int columns) {
                parts(conv.channels, ROWS, [&](int channel, int channels) {
                    dispatch<ROWS>(channels, [&](auto O) { f(O, Row{channel, y, x, x + columns}); });
                });
            });
    }

    // Of which the inputs stay in the first-level cache while one channel after the other goes over them; where not even
    // those of a window do, all.
    int columns_at_once() const {
        const int places = pool ? 2 : 1, rows = kernel.rows + (places - 1) * kernel.stride_rows;
        const int fit = int((24 << 10) / (Index(in.channels) * rows * sizeof(Lanes))) - kernel.columns;
        const int columns = (fit / kernel.stride_columns + 1) / places;
        return fit >= 0 && columns ? columns : out.width;
    }

    float offset_of(const float* parameters, int channel) const {
        return bias ? parameters[Index(conv.channels) * weights + channel] : 0;
    }

    template <int O, bool MARKED>
    void pooled_row(const Pass& pass, int b, const Row& row) const {
        const Index down = Index(kernel.stride_rows) * in.width, right = kernel.stride_columns;
        const Index offset[4] = {0, right, down, down + right};
        const Lanes* window = pass.in + b * in.size() + 2 * (row.y * down + row.x * right);
        for (int x = row.x; x < row.end; ++x, window += 2 * right) {
            Lanes acc[O][4];
            FEDAMD_UNROLL
            for (int p = 0; p < 4; p += COLUMNS) {
                Lanes some[O][COLUMNS] = {};
                const Index (&at)[COLUMNS] = *reinterpret_cast<const Index (*)[COLUMNS]>(offset + p);
                convolve<O, COLUMNS>(some, packed(pass) + Index(row.channel) * weights, window, at);
                FEDAMD_UNROLL
                for (int o = 0; o < O; ++o)
                    FEDAMD_UNROLL
                    for (int q = 0; q < COLUMNS; ++q) acc[o][p + q] = some[o][q];
            }
            FEDAMD_UNROLL
            for (int o = 0; o < O; ++o) pool_window<MARKED>(pass, b, row.channel + o, row.y, x, acc[o]);
        }
    }

    template <bool MARKED>
    __attribute__((always_inline)) void pool_window(const Pass& pass, int b, int channel, int y, int x,
                                                    const Lanes (&places)[4]) const {
        const Index at = b * out.size() + (Index(channel) * out.height + y) * out.width + x;
        const Pooled pooled = pool_places(places, ZERO + offset_of(pass.parameters, channel));
        pass.out[at] = pooled.value;
        if constexpr (MARKED) pass.marks[at] = __builtin_convertvector(pooled.mark, Marks);
    }

    // What comes out of a window, and which place it is from; −1 where ReLU lets nothing through.
    struct Pooled {
        Lanes value;
        Choice mark;
    };

    __attribute__((always_inline)) Pooled pool_places(const Lanes (&places)[4], Lanes offset) const {
        Largest largest(places[0]);
        FEDAMD_UNROLL
        for (int p = 1; p < 4; ++p) largest.consider(places[p], p);
        const Lanes value = largest.value + offset;
        const Choice off = with_relu ? value <= 0 : Choice{};
        return {with_relu ? relu(value) : value, off ? Choice{} - 1 : largest.place};
    }

    // A block of few samples: the lanes hold Q places of a window for each of them. The sums are the same.
    template <int Q>
    void narrow_block(const Pass& pass, int b) const {
        constexpr int SAMPLES = LANES / Q;
        const Index right = kernel.stride_columns, down = Index(kernel.stride_rows) * in.width;
        const Index offset[4] = {0, right, down, down + right};
        const Lanes* image = pass.in + b * in.size();
        for (Index i = 0; i < in.size() - offset[Q - 1]; ++i)
            for (int q = 0; q < Q; ++q)
                std::memcpy(reinterpret_cast<float*>(pass.scratch + i) + q * SAMPLES, image + i + offset[q],
                            SAMPLES * sizeof(float));
        each_row([&](auto O, const Row& row) {
            if constexpr (Q == 4)
                parts(row.end - row.x, 2, [&](int x, int size) {
                    dispatch<2>(size, [&](auto P) { narrow_places<Q, O, P>(pass, b, row, row.x + x, 2 * right); });
                });
            else
                for (int x = row.x; x < row.end; ++x) narrow_places<Q, O, 2>(pass, b, row, x, down);
        });
    }

    // P vectors `stride` apart: with four places in each they are windows side by side, with two the rows of one window.
    template <int Q, int O, int P>
    __attribute__((noinline)) void narrow_places(const Pass& pass, int b, const Row& row, int x, Index stride) const {
        constexpr int SAMPLES = LANES / Q;
        const Lanes* window = pass.scratch + 2 * (Index(row.y) * kernel.stride_rows * in.width + x * kernel.stride_columns);
        Lanes acc[O][P] = {};
        convolve<O, P>(acc, packed(pass) + Index(row.channel) * weights, window, Strided<P>(stride).at);
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < P; p += 4 / Q) {
                Lanes places[4];
                FEDAMD_UNROLL
                for (int q = 0; q < 4; ++q) places[q] = rotated(acc[o][p + q / Q], q % Q * SAMPLES);
                if (pass.marks)
                    pool_window<true>(pass, b, row.channel + o, row.y, x + p, places);
                else
                    pool_window<false>(pass, b, row.channel + o, row.y, x + p, places);
            }
    }

    template <int O>
    void plain_row(const Pass& pass, int b, const Row& row) const {
        parts(row.end - row.x, COLUMNS, [&](int x, int size) {
            dispatch<COLUMNS>(size, [&](auto P) { places<O, P>(pass, b, row, row.x + x); });
        });
    }

    template <int O, int P>
    void places(const Pass& pass, int b, const Row& row, int x) const {
        const Lanes* image = pass.in + b * in.size() + Index(row.y) * kernel.stride_rows * in.width;
        const Lanes* start = image + x * kernel.stride_columns;
        Lanes acc[O][P] = {};
        convolve<O, P>(acc, packed(pass) + Index(row.channel) * weights, start, Strided<P>(kernel.stride_columns).at);
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o) {
            Lanes* to = pass.out + b * out.size() + (Index(row.channel + o) * out.height + row.y) * out.width + x;
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) {
                const Lanes value = acc[o][p] + offset_of(pass.parameters, row.channel + o);
                to[p] = with_relu ? relu(value) : value;
            }
        }
    }

    const Shape in, conv, out;
    const Kernel kernel;
    const int weights;  // of one output channel
    const bool bias, with_relu, pool;
    const PairedColumns pairs;
    const SquareTiles squares;
    const ChannelsLast windows;
    const bool squared, paired;  // whether they are used
};

}  // namespace fedamd
