// The backward pass of a linear layer whose weights are more than a cache holds: one go over them for both gradients.
//
// They come in tiles. A tile's own gradient is added where it belongs, to the weights themselves where a step is taken, and
// from what the weights were before follows the tile's share of the gradient at the inputs. The lanes hold inputs, so that
// nothing is summed across them, and gradients that are zero are left out, of which ReLU and dropout make many.
#pragma once

#include <algorithm>

#include "layer.h"

namespace fedamd {

class LinearTiles {
  public:
    LinearTiles(int inputs, int outputs) : inputs(inputs), outputs(outputs) {}

    // With fewer weights, which are near, more sums in the registers are worth more than zeros.
    bool worthwhile() const { return Index(inputs) * outputs >= 1 << 18; }
    Index scratch() const {  // in `Lanes`
        return Index(2 * SAMPLES + OUTPUTS) * WIDTH + whole(4 * entries() + SAMPLES * tiles() + outputs) / LANES;
    }

    void backward(const Pass& pass) const {
        Scratch at;
        at.in = pass.scratch;
        at.d_in = at.in + SAMPLES * WIDTH;
        at.weights = at.d_in + SAMPLES * WIDTH;
        at.of_samples = reinterpret_cast<Entry*>(at.weights + OUTPUTS * WIDTH);
        at.of_outputs = at.of_samples + entries();
        at.sample_counts = reinterpret_cast<int32_t*>(at.of_outputs + entries());
        at.output_counts = at.sample_counts + SAMPLES * tiles();
        list(pass, at);
        parts(int(whole(inputs)) / LANES, WIDTH, [&](int first, int count) {
            dispatch<WIDTH>(count, [&](auto N) { columns<N>(pass, first * LANES, at); });
        });
    }

  private:
    struct Entry {
        float gradient;
        int32_t row;  // of the tile's weights, or the sample
    };
    struct Scratch {
        Lanes *in, *d_in;  // samples × width
        Lanes* weights;    // outputs of a tile × width
        Entry *of_samples, *of_outputs;  // tiles × samples × outputs of a tile, and outputs × samples: not zero
        int32_t *sample_counts, *output_counts;
    };
    // A tile: so many outputs, and so many vectors of inputs.
    static constexpr int OUTPUTS = 64, WIDTH = 12, SAMPLES = GROUP * LANES;

    int tiles() const { return (outputs + OUTPUTS - 1) / OUTPUTS; }
    Index entries() const { return Index(tiles()) * OUTPUTS * SAMPLES; }

    void list(const Pass& pass, const Scratch& at) const {
        std::fill_n(at.sample_counts, SAMPLES * tiles(), 0);
        for (int o = 0; o < outputs; ++o) {
            int32_t* counts = at.sample_counts + o / OUTPUTS * SAMPLES;
            Entry* of_samples = at.of_samples + Index(o / OUTPUTS) * SAMPLES * OUTPUTS;
            int found = 0;
            for (int s = 0; s < pass.samples; ++s) {  // without a branch: it could not be predicted
                const float gradient = pass.d_out[Index(s / LANES) * outputs + o][s % LANES];
                at.of_outputs[Index(o) * SAMPLES + found] = {gradient, s};
                of_samples[s * OUTPUTS + counts[s]] = {gradient, o % OUTPUTS};
                found += gradient != 0;
                counts[s] += gradient != 0;
            }
            at.output_counts[o] = found;
        }
    }

    // N vectors of inputs, from `first` on, and all their weights.
    template <int N>
    void columns(const Pass& pass, int first, const Scratch& at) const {
        samples_first<N>(pass, first, at.in);
        std::fill_n(at.d_in, pass.blocks * LANES * N, ZERO);
        for (int tile = 0; tile < tiles(); ++tile) {
            if (first + N * LANES <= inputs)
                weights<N, true>(pass, tile, first, at);
            else
                weights<N, false>(pass, tile, first, at);
            for (int s = 0; pass.d_in && s < pass.samples; ++s) {
                const Index list = Index(tile) * SAMPLES + s;
                Lanes* to = at.d_in + s * N;
                Lanes acc[N];
                FEDAMD_UNROLL
                for (int v = 0; v < N; ++v) acc[v] = to[v];
                add_rows<N>(acc, at.of_samples + list * OUTPUTS, at.sample_counts[list], at.weights);
                FEDAMD_UNROLL
                for (int v = 0; v < N; ++v) to[v] = acc[v];
            }
        }
        if (pass.d_in) samples_last<N>(at.d_in, pass, first);
    }

    // Adds a tile's gradient, and leaves in the scratch memory what its weights were before.
    template <int N, bool FULL>
    __attribute__((noinline)) void weights(const Pass& pass, int tile, int first, const Scratch& at) const {
        for (int o = tile * OUTPUTS; o < std::min(outputs, (tile + 1) * OUTPUTS); ++o) {
            Lanes acc[N] = {};
            add_rows<N>(acc, at.of_outputs + Index(o) * SAMPLES, at.output_counts[o], at.in);
            const float* from = pass.parameters + Index(o) * inputs + first;
            float* to = pass.gradient + Index(o) * inputs + first;
            Lanes* kept = at.weights + o % OUTPUTS * N;
            FEDAMD_UNROLL
            for (int v = 0; v < N; ++v, from += LANES, to += LANES) {
                const int count = FULL ? LANES : std::min(LANES, inputs - first - v * LANES);
                kept[v] = load(from, count);
                add(to, acc[v], pass.scale, count);
                __builtin_prefetch(from + 2 * N * LANES, 0, 2);  // of the columns after the next
                __builtin_prefetch(to + 2 * N * LANES, 1, 2);
            }
        }
    }

    template <int N>
    __attribute__((always_inline)) static void add_rows(Lanes (&acc)[N], const Entry* entries, int count,
                                                        const Lanes* rows) {
        for (int n = 0; n < count; ++n) {
            const Lanes* row = rows + Index(entries[n].row) * N;
            FEDAMD_UNROLL
            for (int v = 0; v < N; ++v) acc[v] += entries[n].gradient * row[v];
        }
    }

    // From samples in the lanes to inputs in the lanes, and back.
    template <int N>
    void samples_first(const Pass& pass, int first, Lanes* to) const {
        for (int b = 0; b < pass.blocks; ++b, to += LANES * N)
            for (int v = 0; v < N; ++v) {
                const Lanes* in = pass.in + Index(b) * inputs + first + v * LANES;
                Lanes tile[LANES];
                transposed(tile, inputs - first - v * LANES, [&](int i) { return in[i]; });
                for (int lane = 0; lane < LANES; ++lane) to[lane * N + v] = tile[lane];
            }
    }

    template <int N>
    void samples_last(const Lanes* from, const Pass& pass, int first) const {
        for (int b = 0; b < pass.blocks; ++b, from += LANES * N)
            for (int v = 0; v < N; ++v) {
                Lanes* d_in = pass.d_in + Index(b) * inputs + first + v * LANES;
                Lanes tile[LANES];
                transposed(tile, LANES, [&](int lane) { return from[lane * N + v]; });
                std::copy_n(tile, std::min(LANES, inputs - first - v * LANES), d_in);
            }
    }

    const int inputs, outputs;
};

}  // namespace fedamd
