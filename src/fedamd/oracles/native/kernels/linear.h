// A linear layer with the ReLU behind it, if there is one.
#pragma once

#include <algorithm>

#include "layer.h"

namespace fedamd {

class Linear final : public Layer {
  public:
    Linear(Index inputs, int outputs, bool bias, bool relu)
        : Layer({int(inputs), 1, 1}, {outputs, 1, 1}, outputs * (inputs + bias)),
          inputs(int(inputs)), outputs(outputs), bias(bias), with_relu(relu) {}

    Index scratch() const override { return Index(GROUP) * LANES * row(); }

    void forward(const Pass& pass) const override {
        each_tile(outputs, pass.blocks, [&](auto O, auto P, int first, int block) {
            forward_tile<O, P>(pass, first, block);
        });
    }

    void backward(const Pass& pass) const override {
        if (with_relu)
            for (Index i = 0; i < Index(pass.blocks) * outputs; ++i)
                pass.d_out[i] = behind_relu(pass.d_out[i], pass.out[i]);
        if (bias) bias_gradient(pass);
        weight_gradient(pass);
        if (pass.d_in) input_gradient(pass);
    }

  private:
    // Cuts rows × blocks into tiles whose sums fit the registers, and calls f(rows, blocks, first row, first block). The
    // blocks come one after the other, so that the weights of the rows are still in the cache.
    template <class F>
    static void each_tile(int rows, int blocks, F&& f) {
        parts(rows, ROWS, [&](int first, int height) {
            parts(blocks, COLUMNS, [&](int block, int width) {
                dispatch<ROWS, COLUMNS>(height, width, [&](auto O, auto P) { f(O, P, first, block); });
            });
        });
    }

    template <int O, int P>
    void forward_tile(const Pass& pass, int first, int block) const {
        const float* offsets = pass.parameters + Index(outputs) * inputs + first;
        Lanes acc[O][P];
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) acc[o][p] = ZERO + (bias ? offsets[o] : 0);
        const float* w = pass.parameters + Index(first) * inputs;
        const Lanes* in = pass.in + Index(block) * inputs;
        multiply<O, P>(acc, w, inputs, 1, in, Strided<P>(inputs).at, 1, inputs);
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p)
                pass.out[Index(block + p) * outputs + first + o] = with_relu ? relu(acc[o][p]) : acc[o][p];
    }

    int row() const { return int(whole(inputs)) / LANES; }  // one sample's inputs, in `Lanes`

    void bias_gradient(const Pass& pass) const {
        float* gradient = pass.gradient + Index(outputs) * inputs;
        for (int o = 0; o < outputs; ++o) {
            Lanes total = ZERO;
            for (int b = 0; b < pass.blocks; ++b) total += pass.d_out[Index(b) * outputs + o];
            gradient[o] += sum(total);
        }
    }

    // ∂loss/∂W = Σ_samples d_out · inᵀ. Here the lanes hold inputs of one sample, so nothing is summed across lanes.
    void weight_gradient(const Pass& pass) const {
        for (int b = 0; b < pass.blocks; ++b)
            lane_by_lane(inputs, reinterpret_cast<float*>(pass.scratch + Index(b) * LANES * row()), row() * LANES,
                         [&](Index i) { return pass.in[Index(b) * inputs + i]; });
        parts(row(), COLUMNS, [&](int column, int columns) {  // of all samples: they stay in the first-level cache
            parts(outputs, ROWS, [&](int first, int size) {
                dispatch<ROWS, COLUMNS>(size, columns, [&](auto O, auto P) { weight_tile<O, P>(pass, first, column); });
            });
        });
    }

    template <int O, int P>
    void weight_tile(const Pass& pass, int first, int column) const {
        Lanes acc[O][P] = {};
        for (int b = 0; b < pass.blocks; ++b) {
            const float* d_out = reinterpret_cast<const float*>(pass.d_out + Index(b) * outputs + first);
            const Lanes* samples = pass.scratch + Index(b) * LANES * row() + column;
            multiply<O, P>(acc, d_out, LANES, 1, samples, Strided<P>(1).at, row(), LANES);
        }
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) {
                const int i = (column + p) * LANES;
                add(pass.gradient + Index(first + o) * inputs + i, acc[o][p], std::min(LANES, inputs - i));
            }
    }

    void input_gradient(const Pass& pass) const {
        each_tile(inputs, pass.blocks, [&](auto I, auto P, int first, int block) {
            input_tile<I, P>(pass, first, block);
        });
    }

    template <int I, int P>
    void input_tile(const Pass& pass, int first, int block) const {
        Lanes acc[I][P] = {};
        const Lanes* d_out = pass.d_out + Index(block) * outputs;
        multiply<I, P>(acc, pass.parameters + first, 1, inputs, d_out, Strided<P>(outputs).at, 1, outputs);
        FEDAMD_UNROLL
        for (int i = 0; i < I; ++i)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) pass.d_in[Index(block + p) * inputs + first + i] = acc[i][p];
    }

    const int inputs, outputs;
    const bool bias, with_relu;
};

}  // namespace fedamd
