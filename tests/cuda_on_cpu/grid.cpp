#include "tests/cuda_on_cpu/grid.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "tests/cuda_on_cpu/fiber.h"
#include "tests/cuda_on_cpu/wait_until.h"
#include "tests/mirror/space.h"

namespace mtl::emulated {

Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace {

constexpr unsigned kLanes = 32, kMostThreads = 1024;
constexpr std::size_t kMostShared = 227 << 10, kPage = 4096;  // of sm_90

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
  static constexpr std::size_t kReserved = (kMostShared + 2 * kPage) / kPage * kPage, kCanary = 64;
  std::byte *base_ = nullptr, *at_ = nullptr;
};

enum class State { ready, at_warp, at_block, at_condition, ended };

struct Lane {
  Fiber fiber;
  State state = State::ended;
  const char* waits_for = nullptr;
  const std::function<bool()>* condition = nullptr;  // if at_condition
  unsigned exchanges = 0;                            // completed so far
  std::array<std::byte, kMostExchanged> slots[2];    // for even and odd exchanges: a fast lane may be one ahead
};

/// Runs one block at a time, on fibers that are reused.
class Block {
 public:
  void run(Dim3 index, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
    while (lanes_.size() < threads) lanes_.push_back(std::make_unique<Lane>());
    threads_ = threads;
    blockIdx = index;
    shared_.begin(shared_bytes);
    for (unsigned t = 0; t < threads; ++t) {
      lanes_[t]->state = State::ready;
      lanes_[t]->exchanges = 0;
      lanes_[t]->fiber.start(&thread);
    }
    try {
      while (step()) {
      }
    } catch (...) {
      lanes_.clear();  // not reusable: other fibers are suspended inside the kernel
      throw;
    }
    shared_.end();
  }
  Lane& running() { return *lanes_[threadIdx.x]; }
  Lane& lane_of_warp(unsigned lane) { return *lanes_[threadIdx.x / kLanes * kLanes + lane]; }
  SharedMemory& shared() { return shared_; }
  void wait(State state, const char* what) {
    Lane& lane = running();
    lane.state = state;
    lane.waits_for = what;
    lane.fiber.suspend();
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
  template <class Body>
  void each_lane(unsigned warp, const Body& body) {
    for (unsigned lane = 0; lane < kLanes; ++lane) body(*lanes_[warp * kLanes + lane]);
  }
  /// Returns true if any lane in the warp can run. If all lanes wait for the warp, releases them first.
  bool release_warp(unsigned warp) {
    unsigned ready = 0, waiting = 0, ended = 0;
    bool conditions = false;
    const char* what = nullptr;
    each_lane(warp, [&](Lane& lane) {
      if (lane.state == State::at_condition && (*lane.condition)()) lane.state = State::ready;
      conditions |= lane.state == State::at_condition;
      ready += lane.state == State::ready;
      ended += lane.state == State::ended;
      if (lane.state != State::at_warp) return;
      ++waiting;
      require(what == nullptr || std::strcmp(what, lane.waits_for) == 0, "lanes of one warp wait at ", what, " and ",
              lane.waits_for);
      what = lane.waits_for;
    });
    if (ready > 0 || waiting == 0 || conditions) return ready > 0;
    require(waiting == kLanes, waiting, " lanes of a warp wait at ", what, ", the others ",
            ended > 0 ? "have ended" : "wait for the block");
    each_lane(warp, [](Lane& lane) { lane.state = State::ready; });
    return true;
  }
  void run_lanes(unsigned warp) {
    const unsigned first = random_(), stride = random_() | 1;  // an odd stride visits all 32
    for (unsigned i = 0; i < kLanes; ++i) {
      const unsigned thread = warp * kLanes + (first + i * stride) % kLanes;
      Lane& lane = *lanes_[thread];
      if (lane.state != State::ready) continue;
      threadIdx = Dim3(thread, 0, 0);
      if (lane.fiber.resume()) lane.state = State::ended;
    }
  }
  /// Releases the threads waiting at the block's barrier. Call it when no warp can run. Returns false if all threads
  /// have ended.
  bool release_block() {
    bool any = false;
    for (unsigned t = 0; t < threads_; ++t) {
      require(lanes_[t]->state != State::at_condition, "thread ", t, " waits forever at ", lanes_[t]->waits_for);
      if (lanes_[t]->state != State::at_block) continue;
      lanes_[t]->state = State::ready;
      any = true;
    }
    return any;
  }

  std::vector<std::unique_ptr<Lane>> lanes_;
  SharedMemory shared_;
  unsigned threads_ = 0;
  std::mt19937 random_{first_seed()};
};

Block& block() {
  static Block only;
  return only;
}

}  // namespace

void run_grid(Dim3 blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread) {
  require(threads > 0 && threads <= kMostThreads && threads % kLanes == 0, "a launch with blocks of ", threads,
          " threads; they must be a multiple of ", kLanes, ", at most ", kMostThreads);
  require(shared_bytes <= kMostShared, "a launch with ", shared_bytes, " bytes of shared memory, more than ",
          kMostShared);
  require(blocks.y < 65536 && blocks.z < 65536, "a launch with ", blocks.y, " x ", blocks.z,
          " rows of blocks; each must be below 65536");
  const std::size_t count = std::size_t{blocks.x} * blocks.y * blocks.z;
  mirror::Opened opened;
  gridDim = blocks;
  blockDim = Dim3(threads, 1, 1);
  std::vector<unsigned> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<unsigned>(i);
  std::shuffle(order.begin(), order.end(), block().random());
  for (unsigned i : order)
    block().run(Dim3(i % blocks.x, i / blocks.x % blocks.y, i / blocks.x / blocks.y), threads, shared_bytes, thread);
}

void* shared_memory() { return block().shared().data(); }

void wait_for_block() { block().wait(State::at_block, "__syncthreads"); }

void wait_for_warp(const char* what, unsigned lanes) {
  require(lanes == ~0u, what, " of part of a warp, which tests/cuda_on_cpu does not emulate");
  block().wait(State::at_warp, what);
}

void wait_until(const char* what, const std::function<bool()>& is_done) {
  block().running().condition = &is_done;
  block().wait(State::at_condition, what);
}

std::byte* begin_exchange() { return block().running().slots[block().running().exchanges % 2].data(); }
const std::byte* lane_exchange(unsigned lane) {
  return block().lane_of_warp(lane).slots[block().running().exchanges % 2].data();
}
void end_exchange() { ++block().running().exchanges; }

}  // namespace mtl::emulated
