// A 3 × 3 convolution at the four places of every window, one sample after the other, with the products that the places
// share (Winograd's minimal filtering in two dimensions): 16 multiplications for a window instead of 36.
//
// A window sees 4 × 4 pixels. Their 16 terms, of which the pixels of a row and then those of a column are added up or
// subtracted, go with 16 terms of the kernel; the products are summed over input channels, and the places follow from the 16
// sums. The terms of the pixels are the same for all output channels, which the lanes hold.
#pragma once

#include <algorithm>

#include "channels_last.h"

namespace fedamd {

class SquareTiles {
  public:
    // The shapes in front of the convolution and behind the pooling.
    SquareTiles(Shape in, Shape out, Kernel kernel) : in(in), out(out), kernel(kernel), layout(in) {}

    // Where channels fill the lanes.
    bool worthwhile() const {
        return kernel.rows == 3 && kernel.columns == 3 && kernel.stride_rows == 1 && kernel.stride_columns == 1
               && in.channels % LANES == 0 && out.channels % LANES == 0 && in.size() <= 1 << 16;
    }
    Index scratch() const {  // in `Lanes`
        return weights_size() + terms_size() + 2 * TERMS * Index(out.width) + SIDE * in.width + layout.stride();
    }

    // Takes the weights into the scratch memory, for all blocks to come.
    void prepare(const float* parameters, Lanes* scratch) const {
        float* to = reinterpret_cast<float*>(scratch);
        parts(out.channels / LANES, 2, [&](int first, int size) {
            for (int o = 0; o < size * LANES; ++o)
                for (int c = 0; c < in.channels; ++c)
                    put_weights(parameters + (Index(first * LANES + o) * in.channels + c) * 9, size * LANES,
                                to + (Index(first) * TERMS * in.channels + Index(c) * size) * LANES + o);
        });
    }

    // Calls f(sample, window, first of a vector of channels, sums at the four places) for all windows of a block's samples.
    template <class F>
    void run(const Lanes* image, int samples, Lanes* scratch, F&& f) const {
        Lanes* terms = scratch + weights_size();
        Lanes* sums = terms + terms_size();
        Lanes* columns = sums + 2 * TERMS * out.width;
        float* pixels = reinterpret_cast<float*>(columns + SIDE * in.width);
        layout.from_lanes(image, pixels);
        for (int s = 0; s < samples; ++s)
            for (int y = 0; y < out.height; ++y) {
                put_terms(pixels + s * layout.stride() + 2 * y * down(), columns, terms);
                parts(out.channels / LANES, 2, [&](int first, int size) {
                    dispatch<2>(size, [&](auto P) {
                        sum_up<P>(reinterpret_cast<const float*>(terms), scratch + Index(first) * TERMS * in.channels, sums);
                        for (int x = 0; x < out.width; ++x)
                            for (int p = 0; p < P; ++p) {
                                Lanes places[4];
                                put_places<P>(sums + x * P + p, places);
                                f(s, y * out.width + x, (first + p) * LANES, places);
                            }
                    });
                });
            }
    }

  private:
    static constexpr int SIDE = 4, TERMS = SIDE * SIDE;
    static constexpr int TOGETHER = MANY ? 12 : 6;  // windows whose sums are in the registers

    Index down() const { return Index(in.width) * in.channels; }
    Index weights_size() const { return TERMS * Index(in.channels) * out.channels / LANES; }
    Index terms_size() const { return TERMS * Index(out.width) * in.channels / LANES; }

    // Of one dimension: what goes with left + both + opposed and with both − opposed − right.
    template <class T>
    __attribute__((always_inline)) static void pixel_terms(T a, T b, T c, T d, T (&to)[SIDE]) {
        to[0] = a - c, to[1] = b + c, to[2] = c - b, to[3] = b - d;
    }
    static void kernel_terms(float a, float b, float c, float (&to)[SIDE]) {
        to[0] = a, to[1] = (a + b + c) / 2, to[2] = (a - b + c) / 2, to[3] = c;
    }

    // Of one kernel, for all terms: term, input channel, `outputs` output channels that go together.
    void put_weights(const float* w, int outputs, float* to) const {
        float columns[3][SIDE], rows[SIDE];
        for (int j = 0; j < 3; ++j) kernel_terms(w[j], w[3 + j], w[6 + j], columns[j]);
        for (int i = 0; i < SIDE; ++i) {
            kernel_terms(columns[0][i], columns[1][i], columns[2][i], rows);
            for (int j = 0; j < SIDE; ++j) to[Index(i * SIDE + j) * in.channels * outputs] = rows[j];
        }
    }

    // Of one row of windows: term, window, input channel.
    void put_terms(const float* pixels, Lanes* columns, Lanes* to) const {
        const Index vectors = in.channels / LANES;
        for (Index c = 0; c < vectors; ++c, pixels += LANES, ++to) {
            for (int x = 0; x < 2 * out.width + 2; ++x) {
                const float* at = pixels + Index(x) * in.channels;
                Lanes terms[SIDE];
                pixel_terms(load(at), load(at + down()), load(at + 2 * down()), load(at + 3 * down()), terms);
                std::copy_n(terms, SIDE, columns + x * SIDE);
            }
            for (int x = 0; x < out.width; ++x)
                FEDAMD_UNROLL
                for (int i = 0; i < SIDE; ++i) {
                    const Lanes* at = columns + 2 * x * SIDE + i;
                    Lanes terms[SIDE];
                    pixel_terms(at[0], at[SIDE], at[2 * SIDE], at[3 * SIDE], terms);
                    FEDAMD_UNROLL
                    for (int j = 0; j < SIDE; ++j) to[(Index(i * SIDE + j) * out.width + x) * vectors] = terms[j];
                }
        }
    }

    // The sums over input channels, of P vectors of output channels: term, window, vector.
    template <int P>
    void sum_up(const float* terms, const Lanes* weights, Lanes* sums) const {
        parts(out.width, TOGETHER, [&](int x, int windows) {
            dispatch<TOGETHER>(windows, [&](auto N) {
                for (int term = 0; term < TERMS; ++term)
                    add_products<N, P>(terms + (Index(term) * out.width + x) * in.channels,
                                       weights + Index(term) * in.channels * P, sums + (Index(term) * out.width + x) * P);
            });
        });
    }

    // Not inlined: in a larger function the compiler runs out of registers.
    template <int N, int P>
    __attribute__((noinline)) void add_products(const float* terms, const Lanes* weights, Lanes* sums) const {
        Lanes acc[N][P];
        FEDAMD_UNROLL
        for (int n = 0; n < N; ++n)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) acc[n][p] = ZERO;
        multiply<N, P>(acc, terms, in.channels, 1, weights, Strided<P>(1).at, P, in.channels);
        FEDAMD_UNROLL
        for (int n = 0; n < N; ++n)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) sums[n * P + p] = acc[n][p];
    }

    template <int P>
    __attribute__((always_inline)) void put_places(const Lanes* sums, Lanes (&places)[4]) const {
        Lanes left[SIDE], right[SIDE];
        FEDAMD_UNROLL
        for (int i = 0; i < SIDE; ++i) {
            const auto sum = [&](int j) { return sums[Index(i * SIDE + j) * out.width * P]; };
            left[i] = sum(0) + sum(1) + sum(2);
            right[i] = sum(1) - sum(2) - sum(3);
        }
        places[0] = left[0] + left[1] + left[2];
        places[1] = right[0] + right[1] + right[2];
        places[2] = left[1] - left[2] - left[3];
        places[3] = right[1] - right[2] - right[3];
    }

    const Shape in, out;
    const Kernel kernel;
    const ChannelsLast layout;
};

}  // namespace fedamd
