// A linear layer with the ReLU behind it, if there is one.
#pragma once

#include <algorithm>

#include "layer.h"
#include "linear_tiles.h"

namespace fedamd {

class Linear final : public Layer {
  public:
    Linear(Index inputs, int outputs, bool bias, bool relu)
        : Layer({int(inputs), 1, 1}, {outputs, 1, 1}, outputs * (inputs + bias)),
          inputs(int(inputs)), outputs(outputs), bias(bias), with_relu(relu), tiles(int(inputs), outputs),
          tiled(tiles.worthwhile()) {}

    Index scratch() const override {
        return tiled ? tiles.scratch() : Index(GROUP) * LANES * (row() + COLUMNS - 1);
    }

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
        if (tiled) return tiles.backward(pass);
        if (pass.d_in) input_gradient(pass);
        weight_gradient(pass);
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
            gradient[o] += pass.scale * sum(total);
        }
    }

    // ∂loss/∂W = Σ_samples d_out · inᵀ. Here the lanes hold inputs of one sample, so nothing is summed across lanes.
    void weight_gradient(const Pass& pass) const {
        samples_first(pass);
        parts(outputs, ROWS, [&](int first, int size) {
            for (int column = 0; column < row(); column += COLUMNS)
                dispatch<ROWS, COLUMNS>(size, std::min(COLUMNS, row() - column),
                                        [&](auto O, auto P) { weight_tile<O, P>(pass, first, column); });
        });
    }

    // From samples in the lanes to inputs in the lanes: of so many vectors of inputs, those of all samples.
    void samples_first(const Pass& pass) const {
        for (int b = 0; b < pass.blocks; ++b)
            for (int column = 0; column < row(); ++column) {
                Lanes tile[LANES];
                const Lanes* in = pass.in + Index(b) * inputs + column * LANES;
                transposed(tile, inputs - column * LANES, [&](int i) { return in[i]; });
                Lanes* to = columns_of(pass, column) + b * LANES * COLUMNS + column % COLUMNS;
                for (int lane = 0; lane < LANES; ++lane) to[lane * COLUMNS] = tile[lane];
            }
    }

    static Lanes* columns_of(const Pass& pass, int column) {
        return pass.scratch + Index(column / COLUMNS) * COLUMNS * LANES * pass.blocks;
    }

    template <int O, int P>
    void weight_tile(const Pass& pass, int first, int column) const {
        Lanes acc[O][P] = {};
        for (int b = 0; b < pass.blocks; ++b) {
            const float* d_out = reinterpret_cast<const float*>(pass.d_out + Index(b) * outputs + first);
            const Lanes* samples = columns_of(pass, column) + b * LANES * COLUMNS;
            multiply<O, P>(acc, d_out, LANES, 1, samples, Strided<P>(1).at, COLUMNS,
                           std::min(LANES, pass.samples - b * LANES));
        }
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o)
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) {
                const int i = (column + p) * LANES;
                add(pass.gradient + Index(first + o) * inputs + i, acc[o][p], pass.scale, std::min(LANES, inputs - i));
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
    const LinearTiles tiles;
    const bool tiled;  // whether they are used
};

}  // namespace fedamd
