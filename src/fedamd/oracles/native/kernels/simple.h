// Layers without parameters: zero padding, ReLU, max-pooling. ReLU and 2 × 2 pooling behind a convolution, and ReLU
// behind a linear layer, do not come here: they are part of that layer.
#pragma once

#include <algorithm>

#include "layer.h"

namespace fedamd {

class Padding final : public Layer {
  public:
    Padding(Shape in, int rows, int columns)
        : Layer(in, {in.channels, in.height + 2 * rows, in.width + 2 * columns}, 0), rows(rows), columns(columns) {}

    void forward(const Pass& pass) const override {
        std::fill(pass.out, pass.out + pass.blocks * out.size(), ZERO);
        each_row(pass.blocks, [&](Index inner, Index outer) {
            std::copy(pass.in + inner, pass.in + inner + in.width, pass.out + outer);
        });
    }

    void backward(const Pass& pass) const override {
        if (!pass.d_in) return;
        each_row(pass.blocks, [&](Index inner, Index outer) {
            std::copy(pass.d_out + outer, pass.d_out + outer + in.width, pass.d_in + inner);
        });
    }

  private:
    template <class F>
    void each_row(int blocks, F&& f) const {
        for (int plane = 0; plane < blocks * in.channels; ++plane)
            for (int y = 0; y < in.height; ++y)
                f((Index(plane) * in.height + y) * in.width,
                  (Index(plane) * out.height + y + rows) * out.width + columns);
    }

    const int rows, columns;
};

class Relu final : public Layer {
  public:
    explicit Relu(Shape shape) : Layer(shape, shape, 0) {}

    void forward(const Pass& pass) const override {
        for (Index i = 0; i < pass.blocks * in.size(); ++i) pass.out[i] = relu(pass.in[i]);
    }

    void backward(const Pass& pass) const override {
        if (!pass.d_in) return;
        for (Index i = 0; i < pass.blocks * in.size(); ++i) pass.d_in[i] = behind_relu(pass.d_out[i], pass.out[i]);
    }
};

// Windows side by side (stride = kernel); what does not fill a window at the right and lower edge is left out.
class MaxPool final : public Layer {
  public:
    MaxPool(Shape in, int rows, int columns)
        : Layer(in, {in.channels, in.height / rows, in.width / columns}, 0), rows(rows), columns(columns) {}

    bool keeps_marks() const override { return true; }

    void forward(const Pass& pass) const override {
        each_window(pass.blocks, [&](Index window, Index pooled) {
            Largest largest(pass.in[window]);
            for (int place = 1; place < rows * columns; ++place)
                largest.consider(pass.in[window + at(place)], place);
            pass.out[pooled] = largest.value;
            if (pass.marks) pass.marks[pooled] = __builtin_convertvector(largest.place, Marks);
        });
    }

    void backward(const Pass& pass) const override {
        if (!pass.d_in) return;
        std::fill(pass.d_in, pass.d_in + pass.blocks * in.size(), ZERO);
        each_window(pass.blocks, [&](Index window, Index pooled) {
            const Choice chosen = __builtin_convertvector(pass.marks[pooled], Choice);
            for (int place = 0; place < rows * columns; ++place)
                pass.d_in[window + at(place)] = chosen == place ? pass.d_out[pooled] : ZERO;
        });
    }

  private:
    Index at(int place) const { return Index(place / columns) * in.width + place % columns; }

    template <class F>
    void each_window(int blocks, F&& f) const {
        Index pooled = 0;
        for (int plane = 0; plane < blocks * in.channels; ++plane)
            for (int y = 0; y < out.height; ++y)
                for (int x = 0; x < out.width; ++x)
                    f((Index(plane) * in.height + y * rows) * in.width + x * columns, pooled++);
    }

    const int rows, columns;
};

}  // namespace fedamd
