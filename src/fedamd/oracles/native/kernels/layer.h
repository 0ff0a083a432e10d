// What a layer is: a forward and a backward pass over a group of blocks.
#pragma once

#include <vector>

#include "lanes.h"

namespace fedamd {

// So many blocks go through a layer together, 64 samples: their activations still fit the second-level cache.
constexpr int GROUP = 64 / LANES;

struct Shape {
    int channels, height, width;
    Index size() const { return Index(channels) * height * width; }
};

struct Kernel {
    int rows, columns, stride_rows, stride_columns;
};

// One layer's view of a group. Block b of `in` starts at in + b · (input size), and so on.
struct Pass {
    int blocks;
    const float* parameters;  // of this layer
    const Lanes* in;
    Lanes* out;
    Marks* marks;  // what the backward pass must know of the forward pass; null when there will be none
    // Backward only:
    float* gradient;  // to which `scale` times that of this layer's parameters is added …
    float scale;      // … once; it may be the parameters themselves, which are read before
    Lanes* d_out;     // ∂loss/∂out, may be overwritten
    Lanes* d_in;      // ∂loss/∂in, written; null when nobody needs it
    Lanes* scratch;
    // In both passes:
    const int64_t* keys;  // of the samples, for dropout; null in evaluation
    int samples;          // the lanes behind the last one hold nothing of use
};

class Layer {
  public:
    Layer(Shape in, Shape out, Index parameters) : in(in), out(out), parameters(parameters) {}
    virtual ~Layer() = default;
    virtual void forward(const Pass& pass) const = 0;
    virtual void backward(const Pass& pass) const = 0;
    virtual Index scratch() const { return 0; }     // `Lanes` of scratch the backward pass wants
    virtual bool keeps_marks() const { return false; }  // one `Marks` per output

    const Shape in, out;
    const Index parameters;
};

inline Lanes relu(Lanes x) { return x <= 0 ? ZERO : x; }  // lets NaN through
inline Lanes behind_relu(Lanes d_out, Lanes out) { return out > 0 ? d_out : ZERO; }

// The largest of a window, first of equals, NaN if there is one, as in PyTorch.
struct Largest {
    Lanes value;
    Choice place = {};
    explicit Largest(Lanes first) : value(first) {}
    void consider(Lanes x, int at) {
        const Choice better = (x > value) | (x != x);
        value = better ? x : value;
        place = better ? Choice{} + at : place;
    }
};

}  // namespace fedamd
