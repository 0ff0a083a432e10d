// Sixteen samples side by side: the vector type every kernel works on, and the one inner loop they share.
//
// An activation of a layer is a `Lanes`: the same feature of 16 samples. A batch is cut into blocks of 16 samples, and
// a block of a layer with F features is F consecutive `Lanes`, in PyTorch's order (channel, row, column).
// Written with the compiler's vector extensions: GCC and Clang map a `Lanes` to whatever registers the machine has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fedamd {

using Index = std::ptrdiff_t;

constexpr int LANES = 16;
typedef float Lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t Choice __attribute__((vector_size(LANES * sizeof(int32_t))));  // result of a comparison, or a number
typedef int16_t Marks __attribute__((vector_size(LANES * sizeof(int16_t))));   // `Choice` as it is kept in memory

constexpr Lanes ZERO = {};

inline Lanes load(const float* from) {
    Lanes values;
    std::memcpy(&values, from, sizeof values);
    return values;
}

// Adds the first `count` lanes of `values` to `to`.
inline void add(float* to, Lanes values, int count = LANES) {
    if (count == LANES) {
        values += load(to);
        std::memcpy(to, &values, sizeof values);
    } else {
        for (int lane = 0; lane < count; ++lane) to[lane] += values[lane];
    }
}

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

// Transposes a 16 × 16 tile in place: four rounds of a perfect shuffle of its rows.
inline void transpose(Lanes (&tile)[LANES]) {
    for (int round = 0; round < 4; ++round) {
        Lanes next[LANES];
        for (int i = 0; i < LANES / 2; ++i) {
            const Lanes a = tile[i], b = tile[i + LANES / 2];
            next[2 * i] = FEDAMD_INTERLEAVE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            next[2 * i + 1] = FEDAMD_INTERLEAVE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        std::memcpy(tile, next, sizeof tile);
    }
}

// table[at], lane by lane: one instruction where the compiler knows it.
#if defined(__AVX512F__) && !defined(__clang__)
constexpr bool FAST_LOOKUP = true;
inline Lanes lookup(Lanes table, Choice at) { return __builtin_shuffle(table, at); }
#else
constexpr bool FAST_LOOKUP = false;
inline Lanes lookup(Lanes table, Choice at) {
    Lanes found;
    for (int lane = 0; lane < LANES; ++lane) found[lane] = table[at[lane]];
    return found;
}
#endif

// Calls f with n as a compile-time constant, 1 ≤ n ≤ N: it is what lets loops over n live in registers.
template <int N, class F>
inline void dispatch(int n, F&& f) {
    if constexpr (N > 1) {
        if (n < N) return dispatch<N - 1>(n, f);
    }
    f(std::integral_constant<int, N>{});
}

// In front of every loop over registers.
#define FEDAMD_UNROLL _Pragma("GCC unroll 16")

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

// What one register holds, and how many rows of sums fit the registers beside what they are made of.
#if defined(__AVX512F__)
constexpr int REGISTER = 16, ROWS = 6;
#elif defined(__AVX__)
constexpr int REGISTER = 8, ROWS = 3;
#elif defined(__aarch64__)
constexpr int REGISTER = 4, ROWS = 6;
#else
constexpr int REGISTER = 4, ROWS = 3;
#endif
typedef float Piece __attribute__((vector_size(REGISTER * sizeof(float))));

// `multiply` for the part of the lanes that fits a register, and as many rows as their sums fit all registers.
template <int O, int P>
__attribute__((always_inline)) inline void multiply_piece(Lanes (*acc)[P], const float* w, Index w_row, Index w_step,
                                                          const Lanes* x, const Index (&offset)[P], Index x_step,
                                                          Index count, int lane) {
    Piece sums[O][P];
    FEDAMD_UNROLL
    for (int o = 0; o < O; ++o)
        FEDAMD_UNROLL
        for (int p = 0; p < P; ++p)
            std::memcpy(&sums[o][p], reinterpret_cast<const char*>(&acc[o][p]) + lane * sizeof(float), sizeof(Piece));
    for (Index t = 0; t < count; ++t) {
        Piece values[P];
        FEDAMD_UNROLL
        for (int p = 0; p < P; ++p)
            std::memcpy(&values[p], reinterpret_cast<const char*>(x + offset[p]) + lane * sizeof(float), sizeof(Piece));
        FEDAMD_UNROLL
        for (int o = 0; o < O; ++o) {
            const float weight = w[o * w_row];
            FEDAMD_UNROLL
            for (int p = 0; p < P; ++p) sums[o][p] += values[p] * weight;
        }
        w += w_step;
        x += x_step;
    }
    FEDAMD_UNROLL
    for (int o = 0; o < O; ++o)
        FEDAMD_UNROLL
        for (int p = 0; p < P; ++p)
            std::memcpy(reinterpret_cast<char*>(&acc[o][p]) + lane * sizeof(float), &sums[o][p], sizeof(Piece));
}

// The inner loop: acc[o][p] += Σ_t w[o·w_row + t·w_step] · x[p][t·x_step], scalars w against vectors x.
// The sums stay in registers, so that every x loaded is used for several rows and every w P times.
template <int O, int P>
__attribute__((always_inline)) inline void multiply(Lanes (&acc)[O][P], const float* w, Index w_row, Index w_step,
                                                    const Lanes* x, const Index (&offset)[P], Index x_step,
                                                    Index count) {
    constexpr int WHOLE = O / ROWS * ROWS, REST = O - WHOLE;
    for (int lane = 0; lane < LANES; lane += REGISTER) {
        for (int o = 0; o < WHOLE; o += ROWS)
            multiply_piece<ROWS, P>(acc + o, w + o * w_row, w_row, w_step, x, offset, x_step, count, lane);
        if constexpr (REST > 0)
            multiply_piece<REST, P>(acc + WHOLE, w + WHOLE * w_row, w_row, w_step, x, offset, x_step, count, lane);
    }
}

}  // namespace fedamd
