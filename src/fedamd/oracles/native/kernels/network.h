// A network: the layers PyTorch names, checked, fused, and run over a group of samples, with softmax cross-entropy.
#pragma once

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "convolution.h"
#include "dropout.h"
#include "linear.h"
#include "simple.h"

namespace fedamd {

// As Python describes a layer; the fields it has no use for are zero.
struct Description {
    enum Kind : int64_t { CONVOLUTION, RELU, MAX_POOL, FLATTEN, LINEAR, DROPOUT };
    int64_t kind, inputs, outputs, kernel_rows, kernel_columns, stride_rows, stride_columns;
    int64_t padding_rows, padding_columns, bias;
    double dropped;  // the share that dropout drops
};

// Everything one thread writes to, allocated once.
struct Workspace {
    std::vector<std::vector<Lanes>> values;     // values[l]: input of layer l; the last one: logits
    std::vector<std::vector<Lanes>> gradients;  // ∂loss/∂values[l]
    std::vector<std::vector<Marks>> marks;
    std::vector<Lanes> scratch;
    std::vector<float> partial;  // the gradient of a piece of a batch, once there is one
    std::vector<float> whole;    // the gradient of a step of many, likewise
};

// A group of up to GROUP blocks of samples, by row of the data.
struct Group {
    const float* inputs;
    const int64_t* targets;
    const int64_t* rows;
    const float* weights;
    int count;
    float *losses, *right;  // of every sample, to be written where they are not null
    const int64_t* keys;    // for dropout; null where nothing is dropped
    int blocks() const { return (count + LANES - 1) / LANES; }
};

struct Score {
    double loss = 0;  // Σ weight · loss
    int64_t right = 0;
};

class Network {
  public:
    Network(const Description* layers, int64_t count, const int64_t* shape, int64_t dimensions) {
        Shape now = input_shape(shape, dimensions);
        bool flat = dimensions == 1;
        int dropouts = 0;
        const auto kind_at = [&](int64_t l) { return l < count ? layers[l].kind : -1; };
        for (int64_t l = 0; l < count; ++l) {
            const Description& layer = layers[l];
            const std::string where = "layer " + std::to_string(l);
            if (layer.kind == Description::CONVOLUTION || layer.kind == Description::MAX_POOL) {
                check(!flat, where + " needs an image, and its input is flat");
                check_window(layer, now, where);
            }
            if (layer.kind == Description::CONVOLUTION) {
                if (layer.padding_rows || layer.padding_columns)
                    push<Padding>(now, int(layer.padding_rows), int(layer.padding_columns));
                const Kernel kernel{int(layer.kernel_rows), int(layer.kernel_columns), int(layer.stride_rows),
                                    int(layer.stride_columns)};
                const Shape conv = Convolution::convolved(now, int(layer.outputs), kernel);
                const bool relu = kind_at(l + 1) == Description::RELU;
                const bool pool = kind_at(l + 1 + relu) == Description::MAX_POOL && pools_by_two(layers[l + 1 + relu])
                                  && conv.height >= 2 && conv.width >= 2;
                l += relu + pool;
                push<Convolution>(now, int(layer.outputs), kernel, layer.bias != 0, relu, pool);
            } else if (layer.kind == Description::MAX_POOL) {
                push<MaxPool>(now, int(layer.kernel_rows), int(layer.kernel_columns));
            } else if (layer.kind == Description::RELU) {
                push<Relu>(now);
            } else if (layer.kind == Description::DROPOUT) {
                check(layer.dropped >= 0 && layer.dropped <= 1, where + " drops a share that is not between 0 and 1");
                push<Dropout>(now, layer.dropped, ++dropouts);
            } else if (layer.kind == Description::FLATTEN) {
                flat = true;
            } else if (layer.kind == Description::LINEAR) {
                check(flat, where + " is linear and needs a flat input; put a Flatten before it");
                check(layer.inputs == now.size(), where + " takes " + std::to_string(layer.inputs)
                                                           + " inputs and is given " + std::to_string(now.size()));
                check(positive(layer.outputs), where + " has no outputs");
                const bool relu = kind_at(l + 1) == Description::RELU;
                l += relu;
                push<Linear>(now, int(layer.outputs), layer.bias != 0, relu);
            } else {
                check(false, where + " is of an unknown kind");
            }
        }
        check(flat && !this->layers.empty(), "the network must end in a flat vector of logits");
        classes = now.size();
        features = this->layers.front()->in.size();
    }

    Workspace workspace() const {
        Workspace space;
        Index scratch = 0;
        space.values.emplace_back(GROUP * features);
        space.gradients.emplace_back();  // nobody asks for the gradient at the data
        for (const auto& layer : layers) {
            space.values.emplace_back(GROUP * layer->out.size());
            space.gradients.emplace_back(GROUP * layer->out.size());
            space.marks.emplace_back(layer->keeps_marks() ? GROUP * layer->out.size() : 0);
            scratch = std::max(scratch, layer->scratch());
        }
        space.scratch.resize(scratch);
        return space;
    }

    // Puts the samples into the lanes; lanes without a sample are zero.
    const Lanes* load_group(Workspace& space, const Group& group) const {
        for (int b = 0; b < group.blocks(); ++b) {
            const int lanes = std::min(LANES, group.count - b * LANES);
            const float* sample[LANES];
            for (int lane = 0; lane < lanes; ++lane)
                sample[lane] = group.inputs + group.rows[b * LANES + lane] * features;
            Lanes* to = space.values[0].data() + b * features;
            for (Index f = 0; f < features; f += LANES) {
                const Index width = std::min<Index>(LANES, features - f);
                Lanes tile[LANES];
                transposed(tile, lanes, [&](int lane) { return load(sample[lane] + f, int(width)); });
                std::copy(tile, tile + width, to + f);
            }
        }
        return space.values[0].data();
    }

    // Loss of the loaded group at x and, with a gradient to add `scale` times its gradient to, that too; it may be x itself.
    Score run(Workspace& space, const Group& group, const Lanes* loaded, const float* x, float scale,
              float* gradient) const {
        const size_t last = layers.size();
        Index parameter = 0;
        for (size_t l = 0; l < last; ++l) {
            layers[l]->forward(pass(space, group, loaded, l, x + parameter, nullptr, scale, gradient != nullptr));
            parameter += layers[l]->parameters;
        }
        const Score score = cross_entropy(space, group, gradient != nullptr);
        for (size_t l = last; gradient && l-- > 0;) {
            parameter -= layers[l]->parameters;
            layers[l]->backward(pass(space, group, loaded, l, x + parameter, gradient + parameter, scale, true));
        }
        return score;
    }

    Index dimension = 0;  // d
    Index classes = 0;
    Index features = 0;

  private:
    static void check(bool holds, const std::string& otherwise) {
        if (!holds) throw std::invalid_argument(otherwise);
    }
    static constexpr int64_t LARGEST = int64_t(1) << 24;  // keeps every product of three sizes far from overflow
    static bool positive(int64_t size) { return size > 0 && size <= LARGEST; }
    static bool small(int64_t size) { return size >= 0 && size <= 1024; }

    static Shape input_shape(const int64_t* shape, int64_t dimensions) {
        check(dimensions == 1 || dimensions == 3, "samples must be vectors or images (channels, rows, columns)");
        int64_t size = 1;
        for (int64_t i = 0; i < dimensions; ++i) {
            check(positive(shape[i]) && positive(size *= shape[i]), "samples must have between 1 and 2^24 features");
        }
        return dimensions == 1 ? Shape{int(shape[0]), 1, 1} : Shape{int(shape[0]), int(shape[1]), int(shape[2])};
    }

    static void check_window(const Description& layer, Shape in, const std::string& where) {
        check(small(layer.kernel_rows) && small(layer.kernel_columns) && small(layer.stride_rows)
                  && small(layer.stride_columns) && small(layer.padding_rows) && small(layer.padding_columns)
                  && layer.kernel_rows && layer.kernel_columns && layer.stride_rows && layer.stride_columns,
              where + " has a kernel, stride or padding that is not between 1 and 1024");
        check(in.height + 2 * layer.padding_rows >= layer.kernel_rows
                  && in.width + 2 * layer.padding_columns >= layer.kernel_columns,
              where + " has a kernel larger than its input of " + std::to_string(in.height) + " × "
                  + std::to_string(in.width));
        if (layer.kind == Description::CONVOLUTION)
            check(layer.inputs == in.channels && positive(layer.outputs),
                  where + " takes " + std::to_string(layer.inputs) + " channels and is given "
                      + std::to_string(in.channels));
        if (layer.kind == Description::MAX_POOL)
            check(layer.kernel_rows * layer.kernel_columns <= std::numeric_limits<int16_t>::max(),
                  where + " pools too large a window");
    }

    static bool pools_by_two(const Description& layer) { return layer.kernel_rows == 2 && layer.kernel_columns == 2; }

    template <class L, class... Arguments>
    void push(Shape& now, Arguments... arguments) {
        if constexpr (std::is_same_v<L, Linear>)
            layers.push_back(std::make_unique<L>(now.size(), arguments...));
        else
            layers.push_back(std::make_unique<L>(now, arguments...));
        now = layers.back()->out;
        check(positive(now.size()) && layers.back()->parameters <= (int64_t(1) << 31), "a layer is too large");
        dimension += layers.back()->parameters;
    }

    Pass pass(Workspace& space, const Group& group, const Lanes* loaded, size_t l, const float* parameters, float* gradient,
              float scale, bool backward) const {
        const bool marked = backward && layers[l]->keeps_marks();
        return {group.blocks(), parameters, l > 0 ? space.values[l].data() : loaded, space.values[l + 1].data(),
                marked ? space.marks[l].data() : nullptr, gradient, scale, space.gradients[l + 1].data(),
                l > 0 ? space.gradients[l].data() : nullptr, space.scratch.data(), group.keys, group.count};
    }

    // Softmax cross-entropy, and weight · (softmax − one-hot) as the gradient at the logits.
    Score cross_entropy(Workspace& space, const Group& group, bool backward) const {
        Score score;
        for (int b = 0; b < group.blocks(); ++b) {
            const Lanes* logits = space.values.back().data() + b * classes;
            Lanes* d_logits = space.gradients.back().data() + b * classes;
            for (int lane = 0; lane < LANES; ++lane) {
                const int s = b * LANES + lane;
                if (s >= group.count) {
                    for (Index k = 0; backward && k < classes; ++k) d_logits[k][lane] = 0;
                    continue;
                }
                const Index target = group.targets[group.rows[s]];
                Index best = 0;
                for (Index k = 1; k < classes; ++k)
                    if (logits[k][lane] > logits[best][lane]) best = k;
                const float largest = logits[best][lane];
                float total = 0;
                for (Index k = 0; k < classes; ++k) total += std::exp(logits[k][lane] - largest);
                const float loss = std::log(total) + largest - logits[target][lane];
                if (group.losses) group.losses[s] = loss, group.right[s] = float(best == target);
                score.right += best == target;
                score.loss += double(group.weights[s]) * loss;
                const float scale = group.weights[s];
                for (Index k = 0; backward && k < classes; ++k)
                    d_logits[k][lane] = scale * (std::exp(logits[k][lane] - largest) / total - float(k == target));
            }
        }
        return score;
    }

    std::vector<std::unique_ptr<Layer>> layers;
};

}  // namespace fedamd
