// The weight gradient of a convolution with 2 × 2 max-pooling behind it.
//
// Of the four places of a window only the largest has a gradient, and it is another one in every sample. So the lanes
// hold weights here: for each sample, channel and window, one gradient times the patch of the image at the place that
// was largest. Three quarters of the multiplications are never done, and nothing is summed across lanes.
#pragma once

#include <algorithm>
#include <vector>

#include "layer.h"

namespace fedamd {

class PooledWeights {
  public:
    // The shapes in front of the convolution, behind it, and behind the pooling.
    PooledWeights(Shape in, Shape conv, Shape out, Kernel kernel)
        : in(in), conv(conv), out(out), kernel(kernel), across(kernel.columns * in.channels), order(in.size()),
          begins(out.size()) {
        for (int c = 0; c < in.channels; ++c)
            for (int p = 0; p < in.height * in.width; ++p)
                order[Index(p) * in.channels + c] = c * in.height * in.width + p;
        for (Index i = 0; i < out.size(); ++i)
            begins[i] = 2 * int((i / out.width % out.height * down() + i % out.width * width()) * sizeof(float));
    }

    // Where a kernel row fills less than half of its vectors, or a sample does not fit the cache, the plain way is as fast.
    bool worthwhile() const { return 2 * across >= width() && strips_size() <= 1 << 14; }
    Index scratch() const { return sums_size() + pixels_size() + 2 * windows_size() + strips_size(); }  // in `Lanes`

    // Adds to the gradient (channels × inputs × kernel rows × kernel columns) that of so many blocks of samples.
    void add_to(float* gradient, int blocks, const Lanes* image, const Lanes* d_out, const Marks* marks,
                Lanes* scratch) const {
        Scratch at;
        at.sums = reinterpret_cast<float*>(scratch);
        at.pixels = at.sums + sums_size() * LANES;
        at.gradients = at.pixels + pixels_size() * LANES;
        at.places = reinterpret_cast<int32_t*>(at.gradients + windows_size() * LANES);
        at.strips = scratch + sums_size() + pixels_size() + 2 * windows_size();
        std::fill_n(scratch, sums_size(), ZERO);
        for (int b = 0; b < blocks; ++b) {
            channels_last(image + b * in.size(), at);
            list_windows(d_out + b * out.size(), marks + b * out.size(), at);
            for (int lane = 0; lane < LANES; ++lane) add_sample(lane, at);
        }
        add_sums(at.sums, gradient);
    }

  private:
    struct Scratch {
        float* sums;       // channels × kernel rows × width
        float* pixels;     // samples × pixels × channels; a vector may be read past the last
        float* gradients;  // samples × channels × windows: the gradient …
        int32_t* places;   // … and how many bytes behind the strips' begin its patch lies
        Lanes* strips;     // of one sample: image rows × places in a row × width
    };

    static Index whole(Index floats) { return (floats + LANES - 1) / LANES * LANES; }
    Index width() const { return whole(across); }
    Index sums_size() const { return Index(out.channels) * kernel.rows * width() / LANES; }
    // Not a multiple of a page's size: samples would share few places of the cache.
    Index sample_size() const { return whole(in.size()) + LANES; }
    Index pixels_size() const { return sample_size() + 1; }
    Index windows_size() const { return whole(out.size()); }
    Index down() const { return conv.width * kernel.stride_rows * width(); }  // in the strips, to the place below
    Index strips_size() const { return Index(in.height) * conv.width * width() / LANES; }

    // From samples in the lanes to one sample after the other, with the channels of a pixel side by side.
    void channels_last(const Lanes* image, const Scratch& at) const {
        for (Index f = 0; f < in.size(); f += LANES) {
            Lanes tile[LANES];
            transposed(tile, in.size() - f, [&](int i) { return image[order[f + i]]; });
            put(tile, at.pixels + f, sample_size());
        }
    }

    // All windows, sample after sample.
    void list_windows(const Lanes* d_out, const Marks* marks, const Scratch& at) const {
        const int right = int(width() * sizeof(float)), lower = int(down() * sizeof(float));
        for (Index first = 0; first < out.size(); first += LANES) {
            const auto chosen = [&](int i) { return __builtin_convertvector(marks[first + i], Choice); };
            Lanes tile[LANES];
            transposed(tile, out.size() - first, [&](int i) { return chosen(i) < 0 ? ZERO : d_out[first + i]; });
            put(tile, at.gradients + first, windows_size());
            transposed(tile, out.size() - first, [&](int i) {
                const Choice place = begins[first + i] + (chosen(i) & 1) * right + (chosen(i) >> 1) * lower;
                return reinterpret_cast<Lanes>(chosen(i) < 0 ? Choice{} : place);
            });
            put(tile, reinterpret_cast<float*>(at.places) + first, windows_size());
        }
    }

    static void put(const Lanes (&rows)[LANES], float* to, Index stride) {
        for (int lane = 0; lane < LANES; ++lane) std::memcpy(to + lane * stride, &rows[lane], sizeof(Lanes));
    }

    void add_sample(int lane, const Scratch& at) const {
        cut_strips(at.pixels + lane * sample_size(), at.strips);
        parts(out.height, rows_at_once(), [&](int y, int height) {
            const Index window = lane * windows_size() + y * out.width;
            parts(kernel.rows, 5, [&](int row, int rows) {
                parts(int(width()) / LANES, 2, [&](int vector, int vectors) {
                    const Index first = vector * LANES;
                    dispatch<5, 2>(rows, vectors, [&](auto R, auto V) {
                        add_channels<R, V>(reinterpret_cast<const float*>(at.strips) + row * strip() + first,
                                           height * out.width, at.gradients + window, at.places + window,
                                           at.sums + row * width() + first);
                    });
                });
            });
        });
    }

    // Rows of windows whose strips stay in the first-level cache while one channel after the other goes over them.
    int rows_at_once() const {
        const int strips = int((24 << 10) / (strip() * sizeof(float)));
        return std::max(1, (strips - kernel.rows) / (2 * kernel.stride_rows));
    }

    // Several channels at a time, if registers allow: enough sums in flight to hide the latency of each.
    template <int R, int V>
    void add_channels(const float* strips, int count, const float* gradients, const int32_t* places,
                      float* sums) const {
        constexpr int MOST = MANY || R * V <= 5 ? 2 : 1;
        const Index windows = Index(out.height) * out.width, channel = kernel.rows * width();
        parts(out.channels, MOST, [&](int o, int channels) {
            dispatch<MOST>(channels, [&](auto O) {
                add_windows<O, R, V>(strips, count, gradients + o * windows, places + o * windows, sums + o * channel);
            });
        });
    }

    Index strip() const { return Index(conv.width) * width(); }

    // What the kernel rows see of each image row, laid out once so that no read crosses a cache line.
    void cut_strips(const float* pixels, Lanes* strips) const {
        for (int y = 0; y < in.height; ++y)
            for (int x = 0; x < conv.width; ++x)
                for (Index i = 0; i < width(); i += LANES)
                    *strips++ = load(pixels + (Index(y) * in.width + x * kernel.stride_columns) * in.channels + i);
    }

    // R kernel rows of V vectors each, for O channels, over `count` windows of a sample.
    template <int O, int R, int V>
    void add_windows(const float* strips, int count, const float* gradients, const int32_t* places,
                     float* sums) const {
        const Index windows = Index(out.height) * out.width, wide = width();
        const char* rows[R];
        FEDAMD_UNROLL
        for (int r = 0; r < R; ++r) rows[r] = reinterpret_cast<const char*>(strips + r * strip());
        Lanes acc[O][R][V] = {};
        for (Index i = 0; i < count; ++i)
            FEDAMD_UNROLL
            for (int o = 0; o < O; ++o) {
                const Index place = places[o * windows + i];
                const float gradient = gradients[o * windows + i];
                FEDAMD_UNROLL
                for (int r = 0; r < R; ++r)
                    FEDAMD_UNROLL
                    for (int v = 0; v < V; ++v)
                        acc[o][r][v] += gradient * reinterpret_cast<const Lanes*>(rows[r] + place)[v];
            }
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int r = 0; r < R; ++r)
                FEDAMD_UNROLL
                for (int v = 0; v < V; ++v) add(sums + (o * kernel.rows + r) * wide + v * LANES, acc[o][r][v]);
    }

    // From kernel columns × inputs side by side to PyTorch's order.
    void add_sums(const float* sums, float* gradient) const {
        const Index area = Index(kernel.rows) * kernel.columns;
        for (int o = 0; o < out.channels; ++o, gradient += in.channels * area)
            for (int i = 0; i < kernel.rows; ++i, sums += width())
                for (int j = 0; j < kernel.columns; ++j)
                    for (int c = 0; c < in.channels; ++c)
                        gradient[c * area + i * kernel.columns + j] += sums[j * in.channels + c];
    }

    const Shape in, conv, out;
    const Kernel kernel;
    const int across;           // floats of a patch that lie side by side: one kernel row of all input channels
    std::vector<Index> order;   // where in a block a pixel's channel lies
    std::vector<int> begins;    // the bytes in front of the patch of a window's first place
};

}  // namespace fedamd
