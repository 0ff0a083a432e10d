// Dropout whose masks are addressed, as fedamd/oracles/dropout.py defines them: by a sample's key, by which use of
// dropout it is, and by the place. Without keys nothing is dropped: that is evaluation.
#pragma once

#include "draw.h"
#include "layer.h"

namespace fedamd {

class Dropout final : public Layer {
  public:
    // The network's `use`-th, counted from 1, which drops a share p.
    Dropout(Shape shape, double p, int use)
        : Layer(shape, shape, 0), p(float(p)), scale(p < 1 ? float(1 / (1 - p)) : 0), use(uint64_t(use)) {}

    bool keeps_marks() const override { return true; }

    void forward(const Pass& pass) const override {
        if (!pass.keys) {
            std::copy(pass.in, pass.in + pass.blocks * in.size(), pass.out);
            return;
        }
        for (int b = 0; b < pass.blocks; ++b) {
            const int samples = std::min(LANES, pass.samples - b * LANES);
            uint64_t keys[LANES];
            for (int lane = 0; lane < samples; ++lane) keys[lane] = mixed(uint64_t(pass.keys[b * LANES + lane]) ^ use);
            for (Index i = b * in.size(), place = 0; place < in.size(); ++i, ++place) {
                Choice random = {};  // 24 bits each, which a float holds exactly
                if (samples == LANES)
                    for (int lane = 0; lane < LANES; ++lane) random[lane] = drawn(keys[lane], place);
                else
                    for (int lane = 0; lane < samples; ++lane) random[lane] = drawn(keys[lane], place);
                const Choice kept = __builtin_convertvector(random, Lanes) * 0x1p-24f >= p;
                pass.out[i] = kept ? pass.in[i] * scale : ZERO;
                if (pass.marks) pass.marks[i] = __builtin_convertvector(kept, Marks);
            }
        }
    }

    void backward(const Pass& pass) const override {
        if (!pass.d_in) return;
        for (Index i = 0; i < pass.blocks * in.size(); ++i)
            pass.d_in[i] = __builtin_convertvector(pass.marks[i], Choice) ? pass.d_out[i] * scale : ZERO;
    }

  private:
    static int32_t drawn(uint64_t key, Index place) { return int32_t(mixed(key ^ uint64_t(place)) >> 40); }

    const float p, scale;
    const uint64_t use;
};

}  // namespace fedamd
