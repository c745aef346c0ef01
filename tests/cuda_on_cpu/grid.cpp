#include "tests/cuda_on_cpu/grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "tests/cuda_on_cpu/fiber.h"
#include "tests/cuda_on_cpu/wait_until.h"
#include "tests/mirror/space.h"

namespace mtl::emulated {

Dim3 threadIdx, blockIdx, blockDim, gridDim;
std::size_t most_shared_bytes = 227 << 10, last_shared_bytes = 0;

namespace {

constexpr unsigned kLanes = 32, kMostThreads = 1024;
constexpr std::size_t kPage = 4096;

std::uint32_t first_seed() {
  const char* given = std::getenv("MTL_EMULATION_SEED");
  return given == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 10));
}

/// A block's shared memory, which ends at an inaccessible page.
class SharedMemory {
 public:
  SharedMemory() {
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, kReserved + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    require(base_ != MAP_FAILED, "cannot allocate the emulated shared memory");
    ::mprotect(base_ + kReserved, kPage, PROT_NONE);
  }
  ~SharedMemory() { ::munmap(base_, kReserved + kPage); }
  SharedMemory(const SharedMemory&) = delete;
  /// Fills the memory, and a canary before it, with bytes that are NaN in every dtype.
  void begin(std::size_t bytes) {
    at_ = base_ + kReserved - (bytes + 15) / 16 * 16;
    std::fill(at_ - kCanary, base_ + kReserved, std::byte{0xff});
  }
  void end() const {
    for (const std::byte* b = at_ - kCanary; b < at_; ++b)
      require(*b == std::byte{0xff}, "a kernel wrote before its shared memory");
  }
  std::byte* data() const { return at_; }

 private:
  static constexpr std::size_t kReserved = 256 << 10, kCanary = 64;
  std::byte *base_ = nullptr, *at_ = nullptr;
};

enum class State : std::uint8_t { ready, at_warp, at_block, at_condition, ended };

/// What a waiting thread waits for.
struct Wait {
  const char* what = nullptr;
  const std::function<bool()>* condition = nullptr;  // if at_condition
};

/// How many of a warp's lanes wait for the warp, and how many wait for the block or have ended.
struct Warp {
  unsigned waiting = 0, parked = 0;
  const char* what = nullptr;  // what the first lane waits for
  bool same = true;            // the others wait for it, too
};

/// Runs one block at a time, on fibers that are reused.
class Block {
 public:
  void run(Dim3 index, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
    while (fibers_.size() < threads) fibers_.push_back(std::make_unique<Fiber>());
    threads_ = threads;
    blockIdx = index;
    shared_.begin(shared_bytes);
    for (unsigned t = 0; t < threads; ++t) {
      states_[t] = State::ready;
      exchanges_[t] = 0;
      fibers_[t]->start(&thread);
    }
    std::fill_n(warps_.begin(), threads / kLanes, Warp{});
    try {
      while (step()) {
      }
    } catch (...) {
      fibers_.clear();  // not reusable: other fibers are suspended inside the kernel
      throw;
    }
    shared_.end();
  }
  std::byte* begin_exchange() { return exchanged_[threadIdx.x / kLanes][exchanges_[threadIdx.x] % 2].data(); }
  void end_exchange() { ++exchanges_[threadIdx.x]; }
  SharedMemory& shared() { return shared_; }
  void wait_for_warp(const char* what) {
    Warp& warp = warps_[threadIdx.x / kLanes];
    if (warp.waiting++ == 0) warp.what = what;
    warp.same &= what == warp.what;
    wait(State::at_warp, {what});
  }
  void wait_for_block() {
    ++warps_[threadIdx.x / kLanes].parked;
    wait(State::at_block, {"__syncthreads"});
  }
  /// Continues with the warp's next lane, or returns to run_lanes() after the last one.
  void wait(State state, const Wait& wait) {
    Fiber& own = *fibers_[threadIdx.x];
    states_[threadIdx.x] = state;
    waits_[threadIdx.x] = wait;
    if (ready_.empty()) return own.suspend();
    threadIdx.x = ready_.front();
    ready_ = ready_.subspan(1);
    own.suspend_to(*fibers_[threadIdx.x]);
  }
  std::mt19937& random() { return random_; }

 private:
  /// Runs a warp until each lane waits or has ended, or releases the block's barrier. Returns false if all threads have
  /// ended.
  bool step() {
    const unsigned warps = threads_ / kLanes, first = random_() % warps;
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned warp = (first + i) % warps;
      if (!release_warp(warp)) continue;
      run_lanes(warp);
      return true;
    }
    return release_block();
  }
  /// Returns true if any lane in the warp can run. If all lanes wait for the warp, releases them first.
  bool release_warp(unsigned warp) {
    Warp& counts = warps_[warp];
    if (counts.parked == kLanes) return false;
    if (counts.waiting == kLanes && counts.same) return release_all(warp);
    unsigned ready = 0, waiting = 0, ended = 0;
    bool conditions = false;
    const char* what = nullptr;
    for (unsigned t = warp * kLanes; t < (warp + 1) * kLanes; ++t) {
      if (states_[t] == State::at_condition && (*waits_[t].condition)()) states_[t] = State::ready;
      conditions |= states_[t] == State::at_condition;
      ready += states_[t] == State::ready;
      ended += states_[t] == State::ended;
      if (states_[t] != State::at_warp) continue;
      ++waiting;
      require(what == nullptr || what == waits_[t].what || std::strcmp(what, waits_[t].what) == 0,
              "lanes of one warp wait at ", what, " and ", waits_[t].what);
      what = waits_[t].what;
    }
    if (ready > 0 || waiting == 0 || conditions) return ready > 0;
    require(waiting == kLanes, waiting, " lanes of a warp wait at ", what, ", the others ",
            ended > 0 ? "have ended" : "wait for the block");
    return release_all(warp);
  }
  bool release_all(unsigned warp) {
    std::fill_n(&states_[warp * kLanes], kLanes, State::ready);
    warps_[warp].waiting = 0;
    warps_[warp].same = true;
    return true;
  }
  void run_lanes(unsigned warp) {
    const unsigned first = random_(), stride = random_() | 1;  // an odd stride visits all 32
    std::array<unsigned, kLanes> lanes;
    std::size_t count = 0;
    for (unsigned i = 0; i < kLanes; ++i) {
      const unsigned thread = warp * kLanes + (first + i * stride) % kLanes;
      if (states_[thread] == State::ready) lanes[count++] = thread;
    }
    ready_ = {lanes.data(), count};
    while (!ready_.empty()) {
      threadIdx = Dim3(ready_.front(), 0, 0);
      ready_ = ready_.subspan(1);
      fibers_[threadIdx.x]->resume();
      if (states_[threadIdx.x] != State::ready) continue;  // threadIdx: the last lane that ran
      states_[threadIdx.x] = State::ended;
      ++warps_[warp].parked;
    }
  }
  /// Releases the threads waiting at the block's barrier. Call it when no warp can run. Returns false if all threads
  /// have ended.
  bool release_block() {
    bool any = false;
    for (unsigned t = 0; t < threads_; ++t) {
      require(states_[t] != State::at_condition, "thread ", t, " waits forever at ", waits_[t].what);
      if (states_[t] != State::at_block) continue;
      states_[t] = State::ready;
      --warps_[t / kLanes].parked;
      any = true;
    }
    return any;
  }

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::array<State, kMostThreads> states_{};
  std::array<Wait, kMostThreads> waits_{};
  std::array<Warp, kMostThreads / kLanes> warps_{};
  std::span<const unsigned> ready_;                 // the running warp's next lanes
  std::array<unsigned, kMostThreads> exchanges_{};  // completed by each thread
  // Of each warp, for even and odd exchanges: a fast lane may be one ahead.
  alignas(16) std::array<std::byte, kMostExchanged> exchanged_[kMostThreads / kLanes][2];
  SharedMemory shared_;
  unsigned threads_ = 0;
  std::mt19937 random_{first_seed()};
};

Block block;

}  // namespace

void run_grid(Dim3 blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  require(threads > 0 && threads <= kMostThreads && threads % kLanes == 0, "a launch with blocks of ", threads,
          " threads; they must be a multiple of ", kLanes, ", at most ", kMostThreads);
  require(shared_bytes <= most_shared_bytes, "a launch with ", shared_bytes, " bytes of shared memory, more than ",
          most_shared_bytes);
  require(blocks.y < 65536 && blocks.z < 65536, "a launch with ", blocks.y, " x ", blocks.z,
          " rows of blocks; each must be below 65536");
  last_shared_bytes = shared_bytes;
  const std::size_t count = std::size_t{blocks.x} * blocks.y * blocks.z;
  mirror::Opened opened;
  gridDim = blocks;
  blockDim = Dim3(threads, 1, 1);
  std::vector<unsigned> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<unsigned>(i);
  std::shuffle(order.begin(), order.end(), block.random());
  for (unsigned i : order)
    block.run(Dim3(i % blocks.x, i / blocks.x % blocks.y, i / blocks.x / blocks.y), threads, shared_bytes, thread);
}

void* shared_memory() { return block.shared().data(); }

void wait_for_block() { block.wait_for_block(); }

void wait_for_warp(const char* what, unsigned lanes) {
  require(lanes == ~0u, what, " of part of a warp, which tests/cuda_on_cpu does not emulate");
  block.wait_for_warp(what);
}

void wait_until(const char* what, const std::function<bool()>& is_done) {
  block.wait(State::at_condition, {what, &is_done});
}

std::byte* begin_exchange() { return block.begin_exchange(); }
void end_exchange(const char* what, unsigned lanes) {
  wait_for_warp(what, lanes);
  block.end_exchange();
}

}  // namespace mtl::emulated
