// Batches without replacement: the positions with the smallest random scores, as fedamd.draw defines them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace fedamd {

// SplitMix64's mixer.
inline uint64_t mixed(uint64_t z) {
    z += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

class Draw {
    static constexpr uint64_t END = uint64_t(1) << 63;  // scores have 63 bits
    std::vector<uint64_t> scores, few;

    // Puts into `few` all scores below a bound, which the `width` smallest are very likely to be, and says how many.
    int64_t filter(int64_t size, int64_t width) {
        const double share = (double(width) + 4 * std::sqrt(double(width)) + 4) / double(size);
        const uint64_t bound = share < 1 ? uint64_t(share * double(END)) : END;
        int64_t found = 0;
        for (int64_t i = 0; i < size; ++i) {  // without a branch: it could not be predicted
            few[found] = scores[i];
            found += scores[i] < bound;
        }
        return found;
    }

public:
    explicit Draw(int64_t largest) : scores(largest), few(largest) {}

    // A batch depends on its own key and size alone. All there is comes in order.
    void row(uint64_t key, int64_t size, int64_t width, int64_t* positions) {
        if (size <= width) {
            std::iota(positions, positions + size, 0);
            std::fill(positions + size, positions + width, -1);
            return;
        }
        uint64_t low = 0;  // the bits that carry the position
        while (int64_t(low) < size) low = 2 * low + 1;
        for (int64_t i = 0; i < size; ++i) scores[i] = (mixed(key ^ uint64_t(i)) & (END - 1) & ~low) | uint64_t(i);
        const int64_t found = filter(size, width);
        std::vector<uint64_t>& candidates = found < width ? scores : few;
        std::sort(candidates.begin(), candidates.begin() + (found < width ? size : found));
        for (int64_t i = 0; i < width; ++i) positions[i] = int64_t(candidates[i] & low);
    }
};

}  // namespace fedamd
