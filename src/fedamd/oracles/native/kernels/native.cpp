// The C interface: batches are drawn; a network is created once, then gradients and scores are asked of it.
//
// Every function returns null, or a sentence that says what is wrong. Samples, targets and shapes are checked here,
// once per call and before any thread starts; the kernels trust what they get.
// A model's numbers depend neither on the number of threads nor on the other models of a call: what is summed up in
// which order is fixed by the size of its batch alone.
#include "draw.h"
#include "network.h"
#include "pool.h"

using namespace fedamd;

namespace {

struct Oracle {
    Network network;
    std::vector<Workspace> workspaces;  // one for each thread of the pool, and one for a caller
    Pool pool;
};

constexpr int64_t STEP = GROUP * LANES;  // samples that go through the network together

// The samples of one model's batch that count, padding left out.
struct Selection {
    std::vector<int64_t> rows;
    std::vector<float> weights;
    std::vector<int64_t> keys;  // none where there are none
    bool everything;  // all samples of the data, in order
};

// Samples first … last of a selection, in groups of GROUP · LANES samples.
struct Task {
    int64_t first, last;
    Score score = {};
    float* gradient = nullptr;     // null: the loss alone; it may be the model of a task of one group
    const float* start = nullptr;  // what the gradient is added to; null: zeros
    float *losses = nullptr, *right = nullptr;  // of every sample of the selection, where they are asked for
    float scale = 1;  // of the gradient
};

extern "C" struct Data {
    const float* inputs;
    const int64_t* targets;
    int64_t count;
    const Lanes* lanes;  // all inputs in the lanes, block after block; null: to be put there whenever they are used
};

extern "C" struct Batches {
    const int64_t* samples;  // models × length; null: all samples of the data, equally weighted
    const float* weights;
    int64_t models, length;
    const int64_t* keys;  // models × length, of the samples' own draws; null: nothing is dropped
};

const char* said(const std::string& sentence) {
    thread_local std::string kept;
    kept = sentence;
    return kept.c_str();
}

template <class F>
const char* guarded(F&& f) {
    try {
        f();
        return nullptr;
    } catch (const std::exception& error) {
        return said(error.what());
    }
}

// f(workspace, i) for i = 0 … count − 1, on all threads.
template <class F>
void parallel(Oracle& oracle, size_t count, F&& f) {
    oracle.pool.run(count, [&](size_t thread, size_t i) {
        f(oracle.workspaces[thread], i);
        return false;
    });
}

Selection select(const Network& network, const Data& data, const Batches& batches, int64_t model) {
    Selection selection{{}, {}, {}, !batches.samples};
    const auto choose = [&](int64_t sample, float weight) {
        if (sample < 0 || sample >= data.count)
            throw std::invalid_argument("sample " + std::to_string(sample) + " is not one of the "
                                        + std::to_string(data.count) + " samples");
        if (data.targets[sample] < 0 || data.targets[sample] >= network.classes)
            throw std::invalid_argument("sample " + std::to_string(sample) + " has the label "
                                        + std::to_string(data.targets[sample]) + ", and the model has "
                                        + std::to_string(network.classes) + " classes");
        selection.rows.push_back(sample);
        selection.weights.push_back(weight);
    };
    for (int64_t i = 0; i < batches.length; ++i) {
        const int64_t at = model * batches.length + i;
        if (!batches.samples)
            choose(i, 1.0f / float(batches.length));
        else if (batches.weights[at] != 0) {
            choose(batches.samples[at], batches.weights[at]);
            if (batches.keys) selection.keys.push_back(batches.keys[at]);
        }
    }
    return selection;
}

std::vector<Selection> select_all(const Network& network, const Data& data, const Batches& batches) {
    std::vector<Selection> selections;
    for (int64_t m = 0; m < (batches.samples ? batches.models : 1); ++m)
        selections.push_back(select(network, data, batches, m));
    return selections;
}

// The loss of a task at x and its gradient, minus that at `previous` where it is not null.
void work(const Network& network, Workspace& space, const Data& data, const Selection& selection, const float* x,
          const float* previous, Task& task) {
    if (task.gradient && task.gradient != x) {
        if (task.start)
            std::copy_n(task.start, network.dimension, task.gradient);
        else
            std::fill_n(task.gradient, network.dimension, 0.0f);
    }
    for (int64_t s = task.first; s < task.last; s += STEP) {
        const Group group{data.inputs, data.targets, selection.rows.data() + s, selection.weights.data() + s,
                          int(std::min(STEP, task.last - s)), task.losses ? task.losses + s : nullptr,
                          task.right ? task.right + s : nullptr,
                          selection.keys.empty() ? nullptr : selection.keys.data() + s};
        const Lanes* loaded = selection.everything && data.lanes ? data.lanes + s / LANES * network.features
                                                                 : network.load_group(space, group);
        const Score score = network.run(space, group, loaded, x, task.scale, task.gradient);
        task.score.loss += score.loss;
        task.score.right += score.right;
        if (previous) network.run(space, group, loaded, previous, -task.scale, task.gradient);
    }
}

void add(const Network& network, const float* part, float* total) {
    for (Index i = 0; i < network.dimension; ++i) total[i] += part[i];
}

// A batch is cut into at most SLOTS pieces of two groups or more, for threads to share if its model is alone. Every
// piece has a gradient of its own to be added up, so small pieces would cost more than they are worth.
std::vector<Task> pieces(int64_t samples) {
    constexpr int64_t SLOTS = 16;
    const int64_t groups = (samples + STEP - 1) / STEP, slots = std::min(std::max<int64_t>(1, groups / 2), SLOTS);
    std::vector<Task> tasks;
    for (int64_t slot = 0; slot < slots; ++slot)
        tasks.push_back({groups * slot / slots * STEP, std::min(samples, groups * (slot + 1) / slots * STEP)});
    return tasks;
}

std::vector<Task> pieces(const Selection& selection) { return pieces(int64_t(selection.rows.size())); }

// The gradient of one model as far as it is summed up, piece after piece.
struct Sum {
    std::vector<Task> pieces;
    size_t added = 0;
    double loss = 0;
};

// Adds the next piece; whether there is another.
bool add_piece(const Network& network, Workspace& space, const Data& data, const Selection& selection, const float* x,
               const float* previous, const float* start, float* gradient, Sum& sum) {
    const bool first = sum.added == 0;
    Task& piece = sum.pieces[sum.added++];
    if (!first) space.partial.resize(network.dimension);
    piece.gradient = first ? gradient : space.partial.data();
    piece.start = first ? start : nullptr;
    work(network, space, data, selection, x, previous, piece);
    if (!first) add(network, piece.gradient, gradient);
    sum.loss += piece.score.loss;
    return sum.added < sum.pieces.size();
}

// The gradient of one model, its pieces shared by all threads; its loss.
double shared_gradient(Oracle& oracle, const Data& data, const Selection& selection, const float* x,
                       const float* previous, const float* start, float* gradient) {
    const Network& network = oracle.network;
    std::vector<Task> own = pieces(selection);
    const std::unique_ptr<float[]> others(new float[(own.size() - 1) * network.dimension]);
    for (size_t i = 0; i < own.size(); ++i) {
        own[i].gradient = i ? others.get() + (i - 1) * network.dimension : gradient;
        own[i].start = i ? nullptr : start;
    }
    parallel(oracle, own.size(), [&](Workspace& space, size_t i) {
        work(network, space, data, selection, x, previous, own[i]);
    });
    double loss = own[0].score.loss;
    for (size_t i = 1; i < own.size(); ++i) {
        add(network, own[i].gradient, gradient);
        loss += own[i].score.loss;
    }
    return loss;
}

// Takes x a step of that size against its gradient.
void step(const Network& network, float rate, const float* gradient, float* x) {
    for (Index i = 0; i < network.dimension; ++i) x[i] -= rate * gradient[i];
}

// Takes x a step against the gradient of a batch, on this thread; the loss. With a single group in the batch, no gradient
// is kept: every layer's goes straight to x, in the same arithmetic.
double own_step(const Network& network, Workspace& space, const Data& data, const Selection& selection, float rate,
                float* x) {
    if (const auto count = int64_t(selection.rows.size()); count <= STEP) {
        Task whole{0, count};
        whole.gradient = x;
        whole.scale = -rate;
        work(network, space, data, selection, x, nullptr, whole);
        return whole.score.loss;
    }
    Sum sum{pieces(selection)};
    space.whole.resize(network.dimension);
    while (add_piece(network, space, data, selection, x, nullptr, nullptr, space.whole.data(), sum)) {
    }
    step(network, rate, space.whole.data(), x);
    return sum.loss;
}

}  // namespace

extern "C" {

// How many samples lie side by side where `Data` has them in the lanes.
int64_t fedamd_lanes() { return LANES; }

const char* fedamd_create(const int64_t* layers, int64_t count, const int64_t* shape, int64_t dimensions,
                          int64_t threads, void** handle, int64_t* dimension) {
    return guarded([&] {
        if (threads < 1 || threads > 4096) throw std::invalid_argument("threads must be between 1 and 4096");
        auto oracle = std::unique_ptr<Oracle>(
            new Oracle{Network(reinterpret_cast<const Description*>(layers), count, shape, dimensions), {}, Pool(threads)});
        for (int64_t t = 0; t <= threads; ++t) oracle->workspaces.push_back(oracle->network.workspace());
        *dimension = oracle->network.dimension;
        *handle = oracle.release();
    });
}

void fedamd_destroy(void* handle) { delete static_cast<Oracle*>(handle); }

// gradient (models × d) and loss (models) at x. Where they are not null: minus the gradient at `previous`, plus `start`.
const char* fedamd_gradient(void* handle, Data data, Batches batches, const float* x, const float* previous,
                            const float* start, float* gradient, float* loss) {
    return guarded([&] {
        Oracle& oracle = *static_cast<Oracle*>(handle);
        const std::vector<Selection> selections = select_all(oracle.network, data, batches);
        if (batches.models == 1) {
            *loss = float(shared_gradient(oracle, data, selections[0], x, previous, start, gradient));
            return;
        }
        std::vector<Sum> sums;
        for (const Selection& selection : selections) sums.push_back({pieces(selection)});
        oracle.pool.run(batches.models, [&](size_t thread, size_t m) {
            const auto own = [&](auto* all) { return all ? all + m * oracle.network.dimension : nullptr; };
            return add_piece(oracle.network, oracle.workspaces[thread], data, selections[m], own(x), own(previous),
                             own(start), own(gradient), sums[m]);
        });
        for (int64_t m = 0; m < batches.models; ++m) loss[m] = float(sums[m].loss);
    });
}

// Takes x (models × d) a step on each of the batches, of the size of each model's rate, and writes the losses on the
// way (steps × models). A model's next step is anybody's. The first is from its row of `start`, rows that are so far apart
// (0: all are the same).
const char* fedamd_descend(void* handle, Data data, const Batches* batches, int64_t steps, const float* rates,
                           const float* start, int64_t apart, float* x, float* loss) {
    return guarded([&] {
        Oracle& oracle = *static_cast<Oracle*>(handle);
        const Network& network = oracle.network;
        const int64_t models = steps ? batches[0].models : 0;
        std::vector<std::vector<Selection>> selections;
        for (int64_t k = 0; k < steps; ++k) selections.push_back(select_all(network, data, batches[k]));
        if (models == 1 && pieces(batches[0].length).size() > 1) {
            std::copy_n(start, network.dimension, x);
            std::vector<float> gradient(network.dimension);
            for (int64_t k = 0; k < steps; ++k) {
                loss[k] = float(shared_gradient(oracle, data, selections[k][0], x, nullptr, nullptr, gradient.data()));
                step(network, rates[0], gradient.data(), x);
            }
            return;
        }
        std::vector<int64_t> taken(models);
        oracle.pool.run(models, [&](size_t thread, size_t m) {
            const Selection& selection = selections[taken[m]][m];
            float* own = x + m * network.dimension;
            if (taken[m] == 0) std::copy_n(start + m * apart, network.dimension, own);
            const double seen = own_step(network, oracle.workspaces[thread], data, selection, rates[m], own);
            loss[taken[m]++ * models + m] = float(seen);
            return taken[m] < steps;
        });
    });
}

// loss (models) and accuracy (models, the share of the samples classified rightly) at x; of a single model also the loss
// of every sample, and 1 where it is classified rightly and else 0, unless those two are null.
const char* fedamd_score(void* handle, Data data, Batches batches, const float* x, float* loss, float* accuracy,
                         float* losses, float* right) {
    return guarded([&] {
        Oracle& oracle = *static_cast<Oracle*>(handle);
        const std::vector<Selection> selections = select_all(oracle.network, data, batches);
        const auto of = [&](int64_t model) -> const Selection& { return selections[batches.samples ? model : 0]; };
        std::vector<Task> tasks;
        std::vector<int64_t> models;  // of the tasks
        for (int64_t m = 0; m < batches.models; ++m)
            for (int64_t s = 0, n = int64_t(of(m).rows.size()); s < n; s += STEP) {
                tasks.push_back({s, std::min(n, s + STEP), {}, nullptr, nullptr, losses, right});
                models.push_back(m);
            }
        parallel(oracle, tasks.size(), [&](Workspace& space, size_t i) {
            const float* own = x + models[i] * oracle.network.dimension;
            work(oracle.network, space, data, of(models[i]), own, nullptr, tasks[i]);
        });
        std::vector<Score> totals(batches.models);
        for (size_t i = 0; i < tasks.size(); ++i) {
            totals[models[i]].loss += tasks[i].score.loss;
            totals[models[i]].right += tasks[i].score.right;
        }
        for (int64_t m = 0; m < batches.models; ++m) {
            loss[m] = float(totals[m].loss);
            accuracy[m] = float(double(totals[m].right) / double(of(m).rows.size()));
        }
    });
}

// For every one of `rows` keys, `width` of the positions 0 … size − 1 without replacement; −1 where there are no more.
const char* fedamd_draw(const uint64_t* keys, const int64_t* sizes, int64_t rows, int64_t width, int64_t* positions) {
    return guarded([&] {
        if (rows && *std::min_element(sizes, sizes + rows) < 0) throw std::invalid_argument("a size is negative");
        Draw draw(rows ? *std::max_element(sizes, sizes + rows) : 0);
        for (int64_t r = 0; r < rows; ++r) draw.row(keys[r], sizes[r], width, positions + r * width);
    });
}
}
