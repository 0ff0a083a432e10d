// Samples side by side: the vector type every kernel works on, and the one inner loop they share.
//
// An activation of a layer is a `Lanes`: the same feature of as many samples as a register holds. A batch is cut into
// blocks of so many samples, and a block of a layer with F features is F consecutive `Lanes`, in PyTorch's order
// (channel, row, column). Written with the compiler's vector extensions: no intrinsics, one source for every CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fedamd {

using Index = std::ptrdiff_t;

// What a register holds, how many of them there are, and how two are interleaved: their first halves, their second.
#if defined(__AVX512F__)
constexpr int LANES = 16, REGISTERS = 32;
#define FEDAMD_FIRST 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define FEDAMD_SECOND 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif defined(__AVX__)
constexpr int LANES = 8, REGISTERS = 16;
#define FEDAMD_FIRST 0, 8, 1, 9, 2, 10, 3, 11
#define FEDAMD_SECOND 4, 12, 5, 13, 6, 14, 7, 15
#else
#if defined(__aarch64__)
constexpr int LANES = 4, REGISTERS = 32;
#else
constexpr int LANES = 4, REGISTERS = 16;
#endif
#define FEDAMD_FIRST 0, 4, 1, 5
#define FEDAMD_SECOND 2, 6, 3, 7
#endif

// Sums that are kept in registers, beside what they are made of: so many rows of so many columns.
constexpr bool MANY = REGISTERS >= 32;
constexpr int ROWS = 6, COLUMNS = MANY ? 4 : 2;

typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Choice __attribute__((vector_size(LANES * sizeof(int32_t))));  // result of a comparison, or a number
typedef int16_t Marks __attribute__((vector_size(LANES * sizeof(int16_t))));   // `Choice` as it is kept in memory

constexpr Lanes ZERO = {};

// In front of every loop over registers.
#define FEDAMD_UNROLL _Pragma("GCC unroll 16")

inline Lanes load(const float* from, int count = LANES) {
    Lanes values = ZERO;
    if (count == LANES)
        std::memcpy(&values, from, sizeof values);
    else
        std::memcpy(&values, from, count * sizeof(float));
    return values;
}

// Adds `scale` times the first `count` lanes of `values` to `to`.
inline void add(float* to, Lanes values, float scale = 1, int count = LANES) {
    if (count == LANES) {
        values = load(to) + scale * values;
        std::memcpy(to, &values, sizeof values);
    } else {
        for (int lane = 0; lane < count; ++lane) to[lane] += scale * values[lane];
    }
}

// The next multiple of a vector's length.
inline Index whole(Index floats) { return (floats + LANES - 1) / LANES * LANES; }

inline float sum(Lanes values) {
    float parts[LANES];
    std::memcpy(parts, &values, sizeof values);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; ++lane) parts[lane] += parts[lane + half];
    return parts[0];
}

#ifdef __clang__
#define FEDAMD_INTERLEAVE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define FEDAMD_INTERLEAVE(a, b, ...) __builtin_shuffle(a, b, Choice{__VA_ARGS__})
#endif

// Transposes a square tile in place: rounds of a perfect shuffle of its rows.
inline void transpose(Lanes (&tile)[LANES]) {
    for (int round = 1; round < LANES; round *= 2) {
        Lanes next[LANES];
        FEDAMD_UNROLL
        for (int i = 0; i < LANES / 2; ++i) {
            const Lanes a = tile[i], b = tile[i + LANES / 2];
            next[2 * i] = FEDAMD_INTERLEAVE(a, b, FEDAMD_FIRST);
            next[2 * i + 1] = FEDAMD_INTERLEAVE(a, b, FEDAMD_SECOND);
        }
        std::memcpy(tile, next, sizeof tile);
    }
}

// `count` vectors f(0), f(1), …, with zeros below them, transposed.
template <class F>
__attribute__((always_inline)) inline void transposed(Lanes (&tile)[LANES], Index count, F&& f) {
    if (count >= LANES)
        FEDAMD_UNROLL
        for (int i = 0; i < LANES; ++i) tile[i] = f(i);
    else
        for (int i = 0; i < LANES; ++i) tile[i] = i < count ? f(i) : ZERO;
    transpose(tile);
}

// Transposes `count` vectors f(0), f(1), … into one row for each lane: row s begins at to + s · stride, and is filled up
// with zeros to a whole vector.
template <class F>
inline void lane_by_lane(Index count, float* to, Index stride, F&& f) {
    for (Index first = 0; first < count; first += LANES) {
        Lanes tile[LANES];
        transposed(tile, count - first, [&](int i) { return f(first + i); });
        for (int lane = 0; lane < LANES; ++lane) std::memcpy(to + lane * stride + first, &tile[lane], sizeof(Lanes));
    }
}

// table[at], lane by lane: one instruction where the CPU and the compiler know it.
#if defined(__clang__)
constexpr bool FAST_LOOKUP = false;
inline Lanes lookup(Lanes table, Choice at) {
    Lanes found;
    for (int lane = 0; lane < LANES; ++lane) found[lane] = table[at[lane]];
    return found;
}
#else
constexpr bool FAST_LOOKUP = LANES >= 16;
inline Lanes lookup(Lanes table, Choice at) { return __builtin_shuffle(table, at); }
#endif

// The lanes from `first` on in front of the others.
__attribute__((always_inline)) inline Lanes rotated(Lanes values, int first) {
    Choice at;
    FEDAMD_UNROLL
    for (int lane = 0; lane < LANES; ++lane) at[lane] = (lane + first) % LANES;
    return lookup(values, at);
}

// Calls f with n as a compile-time constant, 1 ≤ n ≤ N: it is what lets loops over n live in registers.
template <int N, class F>
inline void dispatch(int n, F&& f) {
    if constexpr (N > 1) {
        if (n < N) return dispatch<N - 1>(n, f);
    }
    f(std::integral_constant<int, N>{});
}

template <int N, int M, class F>
inline void dispatch(int n, int m, F&& f) {
    dispatch<M>(m, [&](auto second) { dispatch<N>(n, [&](auto first) { f(first, decltype(second){}); }); });
}

// Cuts 0 … count−1 into parts of at most `most`, as even as can be, and calls f(first, size) for each.
template <class F>
inline void parts(int count, int most, F&& f) {
    const int n = (count + most - 1) / most;
    for (int part = 0; part < n; ++part) {
        const int first = int(Index(count) * part / n);
        f(first, int(Index(count) * (part + 1) / n) - first);
    }
}

// Where P vectors lie that are a fixed distance apart.
template <int P>
struct Strided {
    Index at[P];
    explicit Strided(Index stride) {
        FEDAMD_UNROLL
        for (int p = 0; p < P; ++p) at[p] = p * stride;
    }
};

// The inner loop: acc[o][p] += Σ_t w[o·w_row + t·w_step] · x[p][t·x_step], scalars w against vectors x.
// The sums stay in registers, so that every x loaded is used O times and every w P times.
template <int O, int P>
__attribute__((always_inline)) inline void multiply(Lanes (&acc)[O][P], const float* w, Index w_row, Index w_step,
                                                    const Lanes* x, const Index (&offset)[P], Index x_step,
                                                    Index count) {
    for (Index t = 0; t < count; ++t) {
        Lanes values[P];
        FEDAMD_UNROLL
        for (int p = 0; p < P; ++p) values[p] = x[offset[p]];
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o) {
            const float weight = w[o * w_row];
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) acc[o][p] += values[p] * weight;
        }
        w += w_step;
        x += x_step;
    }
}

}  // namespace fedamd
