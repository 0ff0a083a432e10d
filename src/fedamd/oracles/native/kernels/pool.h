// Threads that share the work of all calls made at the same time.
//
// A call brings chains of tasks: the tasks of a chain follow one another, chains are independent. Chains take turns, so
// that all of them, and all calls, come to their ends together, and no thread is idle while others have tasks left.
#pragma once

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
    // Plays the next task of a chain on a thread, from 0 to size − 1; whether the chain has another.
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

    // Returns when all chains have ended, with the error of one if there was any. One caller at a time is the last of
    // the threads: if it woke them all and fell asleep, two of them would find themselves on one CPU, and its own idle.
    void run(size_t chains, const Advance& advance) {
        std::unique_lock<std::mutex> lock(mutex);
        open += chains;
        start();
        Job job{advance, chains, {}};
        for (size_t chain = 0; chain < chains; ++chain) ready.push_back({&job, chain});
        const size_t others = chains - (chains && !helped);  // that the caller does not take at once
        for (size_t i = 0; i < std::min(others, threads.size()); ++i) wake.notify_one();
        while (job.open > 0)
            if (helped || ready.empty())
                changed.wait(lock);
            else
                help(lock, job);
        if (job.error) std::rethrow_exception(job.error);
    }

  private:
    struct Job {
        const Advance& advance;
        size_t open;  // chains that have not ended
        std::exception_ptr error;
    };

    struct Turn {
        Job* job;
        size_t chain;
    };

    static constexpr std::chrono::microseconds SHORTEST{200};  // turn of a chain: hands change seldom

    // Threads start when there is work for them.
    void start() {
        try {
            while (threads.size() + 1 < std::min(most, open))
                threads.emplace_back(&Pool::serve, this, threads.size());
        } catch (const std::system_error&) {  // no more threads to be had: fewer do the same work
            most = threads.size() + 1;
        }
    }

    // What a caller does until its job has ended, or others have the rest of it in hand.
    void help(std::unique_lock<std::mutex>& lock, const Job& job) {
        helped = true;
        while (job.open > 0 && !ready.empty()) take_turn(lock, size - 1);
        helped = false;
        changed.notify_all();  // another caller may be the one now
    }

    void serve(size_t thread) {
        std::unique_lock<std::mutex> lock(mutex);
        while (true) {
            wake.wait(lock, [&] { return closing || !ready.empty(); });
            if (ready.empty()) return;
            take_turn(lock, thread);
        }
    }

    void take_turn(std::unique_lock<std::mutex>& lock, size_t thread) {
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
            return;
        }
        --open;
        if (--turn.job->open == 0) changed.notify_all();
    }

    static bool played(size_t thread, const Turn& turn) {
        const auto end = std::chrono::steady_clock::now() + SHORTEST;
        bool more;
        do more = turn.job->advance(thread, turn.chain);
        while (more && std::chrono::steady_clock::now() < end);
        return more;
    }

    const size_t size;
    size_t most = size;   // threads to be had, a caller among them
    size_t open = 0;      // chains of all jobs that have not ended
    bool helped = false;  // whether a caller is one of the threads
    std::mutex mutex;
    std::condition_variable wake, changed;  // for threads: there is a turn; for callers: a job has ended, or a helper
    std::deque<Turn> ready;
    std::vector<std::thread> threads;
    bool closing = false;
};

}  // namespace fedamd
