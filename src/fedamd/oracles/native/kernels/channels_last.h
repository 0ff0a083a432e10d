// An image between two layouts: samples in the lanes, and one sample after the other with a pixel's channels side by side.
#pragma once

#include <algorithm>
#include <vector>

#include "layer.h"

namespace fedamd {

class ChannelsLast {
  public:
    explicit ChannelsLast(Shape shape) : order(shape.size()) {
        const int pixels = shape.height * shape.width;
        for (int c = 0; c < shape.channels; ++c)
            for (int p = 0; p < pixels; ++p) order[Index(p) * shape.channels + c] = c * pixels + p;
    }

    Index count() const { return Index(order.size()); }
    // From sample to sample. Two vectors may lie past the last pixel; not a multiple of a page's size, or samples would
    // share few places of the cache.
    Index stride() const { return whole(count()) + 3 * LANES; }

    void from_lanes(const Lanes* image, float* samples) const {
        lane_by_lane(count(), samples, stride(), [&](Index i) { return image[order[i]]; });
    }

    void to_lanes(const float* samples, Lanes* image) const {
        each_to_lanes(samples, [&](Index i, Lanes values) { image[i] = values; });
    }

    // Calls f(feature, its values) for all features.
    template <class F>
    void each_to_lanes(const float* samples, F&& f) const {
        for (Index first = 0; first < count(); first += LANES) {
            Lanes tile[LANES];
            FEDAMD_UNROLL
            for (int lane = 0; lane < LANES; ++lane) tile[lane] = load(samples + lane * stride() + first);
            transpose(tile);
            for (Index i = 0; i < std::min<Index>(LANES, count() - first); ++i) f(order[first + i], tile[i]);
        }
    }

  private:
    std::vector<int> order;  // order[i]: which feature in PyTorch's order feature i is, channels last
};

}  // namespace fedamd
