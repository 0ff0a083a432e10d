// The C interface: batches are drawn; a network is created once, then gradients and scores are asked of it.
//
// Every function returns null, or a sentence that says what is wrong. Samples, targets and shapes are checked here,
// once per call and before any thread starts; the kernels trust what they get.
// A model's numbers depend neither on the number of threads nor on the other models of a call: what is summed up in
// which order is fixed by the size of its batch alone.
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

#include "draw.h"
#include "network.h"

using namespace fedamd;

namespace {

struct Oracle {
    Network network;
    std::vector<Workspace> workspaces;  // one per thread
    std::mutex busy;                    // the workspaces serve one call at a time
};

// The samples of one model's batch that count, padding left out.
struct Selection {
    std::vector<int64_t> rows;
    std::vector<float> weights;
    std::vector<int64_t> keys;  // none where there are none
    bool everything;  // all samples of the data, in order
};

// Samples first … last of a selection, in groups of `step` samples.
struct Task {
    int64_t model, first, last, step;
    float* gradient;  // null: the loss alone
    Score score;
    float *losses = nullptr, *right = nullptr;  // of every sample of the selection, where they are asked for
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

template <class F>
void parallel(Oracle& oracle, size_t count, F&& f) {
    std::atomic<size_t> next{0};
    const auto work = [&](Workspace& space) {
        for (size_t i = next++; i < count; i = next++) f(space, i);
    };
    std::vector<std::thread> helpers;
    try {
        for (size_t t = 1; t < std::min(oracle.workspaces.size(), count); ++t)
            helpers.emplace_back(work, std::ref(oracle.workspaces[t]));
    } catch (const std::system_error&) {  // no more threads to be had: fewer do the same work
    }
    work(oracle.workspaces[0]);
    for (std::thread& helper : helpers) helper.join();
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

void work(const Network& network, Workspace& space, const Data& data, const Selection& selection, const float* x,
          const float* previous, const float* start, Task& task) {
    if (task.gradient && start) std::copy_n(start + task.model * network.dimension, network.dimension, task.gradient);
    if (task.gradient && !start) std::fill_n(task.gradient, network.dimension, 0.0f);
    for (int64_t s = task.first; s < task.last; s += task.step) {
        const Group group{data.inputs, data.targets, selection.rows.data() + s, selection.weights.data() + s,
                          int(std::min(task.step, task.last - s)), task.losses ? task.losses + s : nullptr,
                          task.right ? task.right + s : nullptr,
                          selection.keys.empty() ? nullptr : selection.keys.data() + s};
        const Lanes* loaded = selection.everything && data.lanes ? data.lanes + s / LANES * network.features
                                                                 : network.load_group(space, group);
        const Score score = network.run(space, group, loaded, x + task.model * network.dimension, 1, task.gradient);
        task.score.loss += score.loss;
        task.score.right += score.right;
        if (previous) network.run(space, group, loaded, previous + task.model * network.dimension, -1, task.gradient);
    }
}

// Puts x − rate · gradient in the gradient's place.
void step(const Network& network, const float* x, const float* rates, const Task& task) {
    const float rate = rates[task.model];
    x += task.model * network.dimension;
    for (Index i = 0; i < network.dimension; ++i) task.gradient[i] = x[i] - rate * task.gradient[i];
}

void add(const Network& network, const float* part, float* total) {
    for (Index i = 0; i < network.dimension; ++i) total[i] += part[i];
}

// A batch is cut into at most SLOTS pieces of two groups or more, for threads to share if its model is alone. Every
// piece has a gradient of its own to be added up, so small pieces would cost more than they are worth.
std::vector<Task> pieces(int64_t model, int64_t samples) {
    constexpr int64_t SLOTS = 16, STEP = GROUP * LANES;
    const int64_t groups = (samples + STEP - 1) / STEP, slots = std::min(std::max<int64_t>(1, groups / 2), SLOTS);
    std::vector<Task> tasks;
    for (int64_t slot = 0; slot < slots; ++slot)
        tasks.push_back({model, groups * slot / slots * STEP, std::min(samples, groups * (slot + 1) / slots * STEP), STEP,
                         nullptr, {}});
    return tasks;
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
            new Oracle{Network(reinterpret_cast<const Description*>(layers), count, shape, dimensions), {}, {}});
        for (int64_t t = 0; t < threads; ++t) oracle->workspaces.push_back(oracle->network.workspace());
        *dimension = oracle->network.dimension;
        *handle = oracle.release();
    });
}

void fedamd_destroy(void* handle) { delete static_cast<Oracle*>(handle); }

// gradient (models × d) and loss (models) at x. Where they are not null: minus the gradient at `previous`, plus `start`,
// and with `rates` (models) where a step of that size along the gradient leads from x, in the gradient's place.
const char* fedamd_gradient(void* handle, Data data, Batches batches, const float* x, const float* previous,
                            const float* start, const float* rates, float* gradient, float* loss) {
    return guarded([&] {
        Oracle& oracle = *static_cast<Oracle*>(handle);
        const Network& network = oracle.network;
        const std::lock_guard<std::mutex> lock(oracle.busy);
        const std::vector<Selection> selections = select_all(network, data, batches);
        std::vector<double> losses(batches.models);
        const auto play = [&](Workspace& space, Task& piece, bool first) {
            work(network, space, data, selections[piece.model], x, previous, first ? start : nullptr, piece);
        };
        const auto finish = [&](std::vector<Task>& own) {  // of one model: all it needs after its first piece
            for (const Task& piece : own) losses[piece.model] += piece.score.loss;
            if (rates) step(network, x, rates, own[0]);
        };
        if (batches.models == 1) {
            std::vector<Task> own = pieces(0, int64_t(selections[0].rows.size()));
            const std::unique_ptr<float[]> others(new float[(own.size() - 1) * network.dimension]);
            for (size_t i = 0; i < own.size(); ++i)
                own[i].gradient = i ? others.get() + (i - 1) * network.dimension : gradient;
            parallel(oracle, own.size(), [&](Workspace& space, size_t i) { play(space, own[i], i == 0); });
            for (size_t i = 1; i < own.size(); ++i) add(network, own[i].gradient, gradient);
            finish(own);
        } else {
            parallel(oracle, batches.models, [&](Workspace& space, size_t m) {
                std::vector<Task> own = pieces(m, int64_t(selections[m].rows.size()));
                own[0].gradient = gradient + m * network.dimension;
                play(space, own[0], true);
                if (own.size() > 1) space.partial.resize(network.dimension);
                for (size_t i = 1; i < own.size(); ++i) {
                    own[i].gradient = space.partial.data();
                    play(space, own[i], false);
                    add(network, own[i].gradient, own[0].gradient);
                }
                finish(own);
            });
        }
        std::copy(losses.begin(), losses.end(), loss);
    });
}

// loss (models) and accuracy (models, the share of the samples classified rightly) at x; of a single model also the loss
// of every sample, and 1 where it is classified rightly and else 0, unless those two are null.
const char* fedamd_score(void* handle, Data data, Batches batches, const float* x, float* loss, float* accuracy,
                         float* losses, float* right) {
    return guarded([&] {
        Oracle& oracle = *static_cast<Oracle*>(handle);
        const std::lock_guard<std::mutex> lock(oracle.busy);
        const std::vector<Selection> selections = select_all(oracle.network, data, batches);
        const auto of = [&](int64_t model) -> const Selection& { return selections[batches.samples ? model : 0]; };
        std::vector<Task> tasks;
        for (int64_t m = 0; m < batches.models; ++m)
            for (int64_t s = 0, n = int64_t(of(m).rows.size()); s < n; s += GROUP * LANES)
                tasks.push_back({m, s, std::min<int64_t>(n, s + GROUP * LANES), GROUP * LANES, nullptr, {}, losses, right});
        parallel(oracle, tasks.size(), [&](Workspace& space, size_t i) {
            work(oracle.network, space, data, of(tasks[i].model), x, nullptr, nullptr, tasks[i]);
        });
        std::vector<Score> totals(batches.models);
        for (const Task& task : tasks) {
            totals[task.model].loss += task.score.loss;
            totals[task.model].right += task.score.right;
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
