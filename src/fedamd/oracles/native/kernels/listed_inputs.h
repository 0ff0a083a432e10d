// The input gradient of a convolution with 2 × 2 max-pooling behind it, one sample after the other.
//
// Of the four places of a window only the largest has a gradient, and each output channel has its own. So the lanes hold
// inputs here, the channels of a pixel side by side: for each window and place, the channels that were largest there
// are listed, and the sum of their gradients times their kernels is added to the patch of inputs below that place.
// Three quarters of the multiplications are never done, nor those of gradients that are zero.
#pragma once

#include <algorithm>

#include "channels_last.h"

namespace fedamd {

class ListedInputs {
  public:
    // The shapes in front of the convolution and behind the pooling.
    ListedInputs(Shape in, Shape out, Kernel kernel)
        : in(in), out(out), kernel(kernel), across(kernel.columns * in.channels), layout(in) {}

    // Where a kernel row fills less than half of its vectors, lists are short, or images do not fit the cache, the plain
    // way is as fast.
    bool worthwhile() const {
        return kernel.stride_rows == 1 && kernel.stride_columns == 1 && 2 * across >= width() && out.channels >= 8
               && in.size() <= 1 << 16;
    }
    Index scratch() const { return kernels_size() + layout.stride() + 2 * windows_size() + lists_size(); }  // in `Lanes`

    // Puts the gradient of so many samples into d_in.
    void put(Lanes* d_in, int samples, const float* weights, const Lanes* d_out, const Marks* marks,
             Lanes* scratch) const {
        Scratch at;
        at.kernels = reinterpret_cast<float*>(scratch);
        at.pixels = at.kernels + kernels_size() * LANES;
        at.gradients = at.pixels + layout.stride() * LANES;
        at.places = reinterpret_cast<int32_t*>(at.gradients + windows_size() * LANES);
        at.entries = reinterpret_cast<Entry*>(at.places + windows_size() * LANES);
        at.counts = reinterpret_cast<int32_t*>(at.entries + lists() * out.channels);
        lay_out(weights, at.kernels);
        for (int first = 0; first < samples; first += LANES, d_in += in.size(), d_out += out.size(), marks += out.size()) {
            const int count = std::min(LANES, samples - first);
            samples_first(d_out, marks, at);
            std::fill_n(at.pixels, layout.stride() * LANES, 0.0f);
            for (int sample = 0; sample < count; ++sample) {
                list(at.gradients + sample * windows_size(), at.places + sample * windows_size(), at);
                add_sample(at.pixels + sample * layout.stride(), at);
            }
            layout.to_lanes(at.pixels, d_in);
        }
    }

  private:
    struct Entry {
        float gradient;
        int32_t kernel;  // how many floats behind the begin of the kernels its channel's lies
    };
    struct Scratch {
        float* kernels;    // channels × kernel rows × width
        float* pixels;     // samples × pixels × channels; a vector may reach past the last
        float* gradients;  // samples × channels × windows
        int32_t* places;   // alike
        Entry* entries;    // of one sample: windows × places × channels
        int32_t* counts;   // of one sample: windows × places
    };
    static constexpr int MOST = MANY ? 24 : 12;  // sums that fit the registers

    Index width() const { return whole(across); }
    Index kernels_size() const { return Index(out.channels) * kernel.rows * width() / LANES; }
    Index windows_size() const { return whole(out.size()); }
    Index lists() const { return 4 * Index(out.height) * out.width; }
    Index lists_size() const { return whole(lists() * (out.channels * 2 + 1)) / LANES; }

    void lay_out(const float* weights, float* kernels) const {
        std::fill_n(kernels, kernels_size() * LANES, 0.0f);
        const Index area = Index(kernel.rows) * kernel.columns;
        for (int o = 0; o < out.channels; ++o, weights += in.channels * area)
            for (int i = 0; i < kernel.rows; ++i, kernels += width())
                for (int j = 0; j < kernel.columns; ++j)
                    for (int c = 0; c < in.channels; ++c)
                        kernels[j * in.channels + c] = weights[c * area + i * kernel.columns + j];
    }

    // Gradients and places of a block, sample after sample.
    void samples_first(const Lanes* d_out, const Marks* marks, const Scratch& at) const {
        const auto chosen = [&](Index i) { return __builtin_convertvector(marks[i], Choice); };
        lane_by_lane(out.size(), at.gradients, windows_size(), [&](Index i) { return chosen(i) < 0 ? ZERO : d_out[i]; });
        lane_by_lane(out.size(), reinterpret_cast<float*>(at.places), windows_size(),
                     [&](Index i) { return reinterpret_cast<Lanes>(chosen(i) & 3); });
    }

    void list(const float* gradients, const int32_t* places, const Scratch& at) const {
        const int windows = out.height * out.width, stride = int(kernel.rows * width());
        std::fill_n(at.counts, lists(), 0);
        for (int o = 0; o < out.channels; ++o)
            for (int w = 0; w < windows; ++w, ++gradients, ++places) {
                const int which = 4 * w + *places;
                const int n = at.counts[which];
                at.entries[Index(which) * out.channels + n] = {*gradients, o * stride};
                at.counts[which] = n + (*gradients != 0);
            }
    }

    void add_sample(float* pixels, const Scratch& at) const {
        parts(int(width()) / LANES, MOST, [&](int vector, int vectors) {
            parts(kernel.rows, std::min(5, MOST / vectors), [&](int row, int rows) {
                dispatch<5, MOST>(rows, vectors, [&](auto R, auto V) {
                    if constexpr (R * V <= MOST)
                        add_rows<R, V>(pixels + Index(row) * in.width * in.channels + vector * LANES,
                                       at.kernels + row * width() + vector * LANES, at);
                });
            });
        });
    }

    template <int R, int V>
    __attribute__((noinline)) void add_rows(float* pixels, const float* kernels, const Scratch& at) const {
        const Index down = Index(in.width) * in.channels, wide = width();
        const Entry* entries = at.entries;
        const int32_t* counts = at.counts;
        for (int y = 0; y < out.height; ++y)
            for (int x = 0; x < out.width; ++x)
                for (int place = 0; place < 4; ++place, entries += out.channels) {
                    const int count = *counts++;
                    if (!count) continue;
                    Lanes acc[R][V] = {};
                    for (int n = 0; n < count; ++n) {
                        const float gradient = entries[n].gradient;
                        const Lanes* w = reinterpret_cast<const Lanes*>(kernels + entries[n].kernel);
                        FEDAMD_UNROLL
                        for (int r = 0; r < R; ++r)
                            FEDAMD_UNROLL
                            for (int v = 0; v < V; ++v) acc[r][v] += gradient * w[r * (wide / LANES) + v];
                    }
                    float* to = pixels + (2 * y + place / 2) * down + (2 * x + place % 2) * in.channels;
                    FEDAMD_UNROLL
                    for (int r = 0; r < R; ++r)
                        FEDAMD_UNROLL
                        for (int v = 0; v < V; ++v) add(to + r * down + v * LANES, acc[r][v]);
                }
    }

    const Shape in, out;
    const Kernel kernel;
    const int across;  // floats of a kernel row
    const ChannelsLast layout;
};

}  // namespace fedamd
