// Threads that share the work of all calls made at the same time.
//
// A call brings chains of tasks: the tasks of a chain follow one another, chains are independent. Chains take turns, so
// that all of them, and all calls, come to their ends together, and no thread is idle while others have tasks left.
// Where there is a thread for every CPU of the process, each stays on its own (Linux): woken all at once, two of them
// would else often find themselves on one CPU, and leave another idle for as long as a call takes.
#pragma once

#ifdef __linux__
#include <pthread.h>
#include <sched.h>
#endif

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace fedamd {

class Pool {
  public:
    // Plays the next task of a chain on a thread, from 0 to size; whether the chain has another.
    using Advance = std::function<bool(size_t thread, size_t chain)>;

    explicit Pool(size_t size) : size(size) {}

    ~Pool() {
        {
            const std::lock_guard<std::mutex> lock(mutex);
            closing = true;
        }
        wake.notify_all();
        for (std::thread& thread : threads) thread.join();
    }

    // Returns when all chains have ended, with the error of one if there was any.
    void run(size_t chains, const Advance& advance) {
        std::unique_lock<std::mutex> lock(mutex);
        if (chains == 1 && open == 0) {  // for one alone no other thread need be woken
            ++open;
            lock.unlock();
            const Alone alone{*this};
            while (advance(size, 0)) {
            }
            return;
        }
        open += chains;
        start();
        if (threads.empty()) {  // one caller after the other does it
            open -= chains;
            for (size_t chain = 0; chain < chains; ++chain)
                while (advance(0, chain)) {
                }
            return;
        }
        Job job{advance, chains, {}, {}};
        for (size_t chain = 0; chain < chains; ++chain) ready.push_back({&job, chain});
        for (size_t i = 0; i < std::min(chains, threads.size()); ++i) wake.notify_one();
        job.ended.wait(lock, [&] { return job.open == 0; });
        if (job.error) std::rethrow_exception(job.error);
    }

  private:
    struct Job {
        const Advance& advance;
        size_t open;  // chains that have not ended
        std::condition_variable ended;
        std::exception_ptr error;
    };

    struct Alone {  // while it is there, a chain that its caller plays
        Pool& pool;
        ~Alone() {
            const std::lock_guard<std::mutex> lock(pool.mutex);
            --pool.open;
        }
    };

    struct Turn {
        Job* job;
        size_t chain;
    };

    static constexpr std::chrono::microseconds SHORTEST{200};  // turn of a chain: hands change seldom

    // Threads start when there is work for them; one alone would have no advantage over the caller.
    void start() {
        try {
            while (most > 1 && threads.size() < std::min(most, open))
                threads.emplace_back(&Pool::serve, this, threads.size());
        } catch (const std::system_error&) {  // no more threads to be had: fewer do the same work
            most = threads.size();
        }
    }

    void serve(size_t thread) {
        settle(thread);
        std::unique_lock<std::mutex> lock(mutex);
        while (true) {
            wake.wait(lock, [&] { return closing || !ready.empty(); });
            if (ready.empty()) return;
            const Turn turn = ready.front();
            ready.pop_front();
            lock.unlock();
            bool more = false;
            std::exception_ptr error;
            try {
                more = played(thread, turn);
            } catch (...) {
                error = std::current_exception();
            }
            lock.lock();
            if (error) turn.job->error = error;
            if (more) {
                ready.push_back(turn);  // nobody need be woken: this thread takes a turn itself
                continue;
            }
            --open;
            if (--turn.job->open == 0) turn.job->ended.notify_one();  // under the lock, or the job might be gone
        }
    }

    // Takes this thread to the CPU of its number, if there are as many of them as threads. A refusal does no harm.
    void settle(size_t thread) const {
#ifdef __linux__
        cpu_set_t allowed, own;
        if (sched_getaffinity(0, sizeof allowed, &allowed) || size_t(CPU_COUNT(&allowed)) != size) return;
        int cpu = -1;
        for (size_t passed = 0; passed <= thread; ++passed)
            do ++cpu;
            while (!CPU_ISSET(cpu, &allowed));
        CPU_ZERO(&own);
        CPU_SET(cpu, &own);
        pthread_setaffinity_np(pthread_self(), sizeof own, &own);
#else
        (void)thread;
#endif
    }

    static bool played(size_t thread, const Turn& turn) {
        const auto end = std::chrono::steady_clock::now() + SHORTEST;
        bool more;
        do more = turn.job->advance(thread, turn.chain);
        while (more && std::chrono::steady_clock::now() < end);
        return more;
    }

    const size_t size;
    size_t most = size;  // threads to be had
    size_t open = 0;     // chains of all jobs that have not ended
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Turn> ready;
    std::vector<std::thread> threads;
    bool closing = false;
};

}  // namespace fedamd
