// How many floating-point operations a second one core does at most: fused multiply-adds on registers, nothing else.
#include <chrono>
#include <cstdio>
#if defined(__AVX512F__)
constexpr int width = 64;
#else
constexpr int width = 32;
#endif
typedef float Vector __attribute__((vector_size(width)));

int main() {
    constexpr int sums = 12;  // in flight at once: more than two units have to wait for
    constexpr long repeats = 4'000'000;
    Vector sum[sums] = {};
    const Vector factor = Vector{} + 0.999f, addend = Vector{} + 0.001f;
    double best = 0;
    for (int trial = 0; trial < 60; ++trial) {
        const auto begun = std::chrono::steady_clock::now();
        for (long repeat = 0; repeat < repeats; ++repeat)
            for (int i = 0; i < sums; ++i) sum[i] = sum[i] * factor + addend;
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
        const double speed = 2.0 * (width / sizeof(float)) * sums * repeats / seconds.count();
        best = speed > best ? speed : best;
    }
    Vector total = {};
    for (const Vector& one : sum) total += one;
    std::printf("%.6g %g\n", best, static_cast<double>(total[0]));  // the sum, so that it has to be computed
}
