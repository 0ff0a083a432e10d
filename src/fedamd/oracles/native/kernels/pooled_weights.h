// The weight gradient of a convolution with 2 × 2 max-pooling behind it.
//
// Of the four places of a window only the largest has a gradient, and it is another one in every sample. So the lanes
// hold weights here: for each sample, channel and window, one gradient times the patch of the image at the place that
// was largest. Three quarters of the multiplications are never done, and nothing is summed across lanes.
#pragma once

#include <algorithm>
#include <vector>

#include "channels_last.h"

namespace fedamd {

class PooledWeights {
  public:
    // The shapes in front of the convolution, behind it, and behind the pooling.
    PooledWeights(Shape in, Shape conv, Shape out, Kernel kernel)
        : in(in), conv(conv), out(out), kernel(kernel), across(kernel.columns * in.channels), layout(in),
          cut(sizeof(Lanes) == CACHE_LINE && in.channels % LANES), begins(out.size()) {
        for (Index i = 0; i < out.size(); ++i)
            begins[i] = 2 * int((i / out.width % out.height * down() + i % out.width * right()) * sizeof(float));
    }

    // Where a kernel row fills less than half of its vectors, or a sample does not fit the cache, the plain way is as fast.
    bool worthwhile() const { return 2 * across >= width() && in.height * strip() <= LANES << 14; }
    Index scratch() const {  // in `Lanes`
        return sums_size() + layout.stride() + 2 * windows_size() + strips_size() + whole(out.channels) * out.height / LANES;
    }

    // Adds to the gradient (channels × inputs × kernel rows × kernel columns) `scale` times that of so many samples.
    void add_to(float* gradient, float scale, int samples, const Lanes* image, const Lanes* d_out, const Marks* marks,
                Lanes* scratch) const {
        Scratch at;
        at.sums = reinterpret_cast<float*>(scratch);
        at.pixels = at.sums + sums_size() * LANES;
        at.gradients = at.pixels + layout.stride() * LANES;
        at.places = reinterpret_cast<int32_t*>(at.gradients + windows_size() * LANES);
        at.strips = scratch + sums_size() + layout.stride() + 2 * windows_size();
        at.counts = reinterpret_cast<int32_t*>(at.strips + strips_size());
        std::fill_n(scratch, sums_size(), ZERO);
        for (int b = 0; b * LANES < samples; ++b) {
            layout.from_lanes(image + b * in.size(), at.pixels);
            list_windows(d_out + b * out.size(), marks + b * out.size(), at);
            for (int lane = 0; lane < std::min(LANES, samples - b * LANES); ++lane) add_sample(lane, at);
        }
        add_sums(at.sums, scale, gradient);
    }

  private:
    struct Scratch {
        float* sums;       // channels × kernel rows × width
        float* pixels;     // samples × pixels × channels; a vector may be read past the last
        float* gradients;  // samples × channels × windows: the gradient …
        int32_t* places;   // … and how many bytes behind the first strip's begin its patch lies
        Lanes* strips;     // of one sample, where they are cut: image rows × places in a row × width
        int32_t* counts;   // of one sample, how many windows of each part have a gradient: parts × channels
    };
    static constexpr int CACHE_LINE = 64, SUMS = 12;  // the latter kept in registers
    static constexpr int GATHERED = 256;              // weights

    Index width() const { return whole(across); }
    Index sums_size() const { return Index(out.channels) * kernel.rows * width() / LANES; }
    Index windows_size() const { return whole(out.size()); }
    // What the kernel rows see of an image row, and from there to what they see at the next place, and below.
    Index strip() const { return cut ? conv.width * width() : Index(in.width) * in.channels; }
    Index right() const { return cut ? width() : Index(kernel.stride_columns) * in.channels; }
    Index down() const { return kernel.stride_rows * strip(); }
    Index strips_size() const { return cut ? in.height * strip() / LANES : 0; }

    // All windows, sample after sample.
    void list_windows(const Lanes* d_out, const Marks* marks, const Scratch& at) const {
        const int next = int(right() * sizeof(float)), lower = int(down() * sizeof(float));
        const auto chosen = [&](Index i) { return __builtin_convertvector(marks[i], Choice); };
        lane_by_lane(out.size(), at.gradients, windows_size(), [&](Index i) { return chosen(i) < 0 ? ZERO : d_out[i]; });
        lane_by_lane(out.size(), reinterpret_cast<float*>(at.places), windows_size(), [&](Index i) {
            const Choice place = begins[i] + (chosen(i) & 1) * next + (chosen(i) >> 1) * lower;
            return reinterpret_cast<Lanes>(chosen(i) < 0 ? Choice{} : place);
        });
    }

    void add_sample(int lane, const Scratch& at) const {
        const float* pixels = at.pixels + lane * layout.stride();
        if (cut) cut_strips(pixels, at.strips);
        const float* strips = cut ? reinterpret_cast<const float*>(at.strips) : pixels;
        const int32_t* counts = at.counts;
        gather(lane, at);
        parts(out.height, rows_at_once(), [&](int y, int) {
            const Index window = lane * windows_size() + y * out.width;
            parts(kernel.rows, 5, [&](int row, int rows) {
                parts(int(width()) / LANES, std::min(4, SUMS / rows), [&](int vector, int vectors) {
                    const Index first = vector * LANES;
                    dispatch<5, 4>(rows, vectors, [&](auto R, auto V) {
                        if constexpr (R * V <= SUMS)
                            add_channels<R, V>(strips + row * strip() + first, counts, at.gradients + window,
                                               at.places + window, at.sums + row * width() + first);
                    });
                });
            });
            counts += out.channels;
        });
    }

    // Of every part and channel, the windows with a gradient in front of the others, of which the gradient is zero. It
    // takes a few cycles for each window, so there must be many weights to multiply with.
    void gather(int lane, const Scratch& at) const {
        const bool worthwhile = kernel.rows * width() >= GATHERED;
        int32_t* counts = at.counts;
        parts(out.height, rows_at_once(), [&](int y, int height) {
            const int count = height * out.width;
            for (int o = 0; o < out.channels; ++o) {
                const Index first = lane * windows_size() + (Index(o) * out.height + y) * out.width;
                float* gradients = at.gradients + first;
                int32_t* places = at.places + first;
                int found = worthwhile ? 0 : count;
                for (int i = 0; worthwhile && i < count; ++i) {  // without a branch: it could not be predicted
                    const float gradient = gradients[i];
                    gradients[found] = gradient;
                    places[found] = places[i];
                    found += gradient != 0;
                }
                std::fill(gradients + found, gradients + count, 0.0f);
                *counts++ = found;
            }
        });
    }

    // Rows of windows whose strips stay in the first-level cache while one channel after the other goes over them.
    int rows_at_once() const {
        const int strips = int((24 << 10) / (strip() * sizeof(float)));
        return std::max(1, ((strips - kernel.rows) / kernel.stride_rows + 1) / 2);
    }

    // Several channels at a time, if registers allow: enough sums in flight to hide the latency of each.
    template <int R, int V>
    void add_channels(const float* strips, const int32_t* counts, const float* gradients, const int32_t* places,
                      float* sums) const {
        constexpr int MOST = MANY || R * V <= 5 ? 2 : 1;
        const Index windows = Index(out.height) * out.width, channel = kernel.rows * width();
        parts(out.channels, MOST, [&](int o, int channels) {
            dispatch<MOST>(channels, [&](auto O) {
                const int count = O == 1 ? counts[o] : std::max(counts[o], counts[o + 1]);
                add_windows<O, R, V>(strips, count, gradients + o * windows, places + o * windows, sums + o * channel);
            });
        });
    }

    // Where every vector of an image row would cross a cache line: laid out once so that none does.
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
                        acc[o][r][v] += gradient * load(reinterpret_cast<const float*>(rows[r] + place) + v * LANES);
            }
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int r = 0; r < R; ++r)
                FEDAMD_UNROLL
                for (int v = 0; v < V; ++v) add(sums + (o * kernel.rows + r) * wide + v * LANES, acc[o][r][v]);
    }

    // From kernel columns × inputs side by side to PyTorch's order.
    void add_sums(const float* sums, float scale, float* gradient) const {
        const Index area = Index(kernel.rows) * kernel.columns;
        for (int o = 0; o < out.channels; ++o, gradient += in.channels * area)
            for (int i = 0; i < kernel.rows; ++i, sums += width())
                for (int j = 0; j < kernel.columns; ++j)
                    for (int c = 0; c < in.channels; ++c)
                        gradient[c * area + i * kernel.columns + j] += scale * sums[j * in.channels + c];
    }

    const Shape in, conv, out;
    const Kernel kernel;
    const int across;         // floats of a patch that lie side by side: one kernel row of all input channels
    const ChannelsLast layout;
    const bool cut;           // whether what kernel rows see is laid out apart
    std::vector<int> begins;  // the bytes in front of the patch of a window's first place
};

}  // namespace fedamd
