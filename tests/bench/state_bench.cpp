// Measures updates of optimizer state in files: mtl_bench_state FOLDER THREADS MEGAPARAMETERS ROUNDS. The parameters
// are bf16 with fp32 main weights and moments, 12 bytes of state each. Each round updates them with AdamW, in files and
// in memory, and runs a loop of the same reads and writes of files of the same size, which leaves as little in the page
// cache. Each round prints GB/s in each direction of the update and of the loop, and the seconds of the three, as JSON.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "base/scratch_file.h"
#include "device/step_state.h"
#include "optim/state_ring.h"

using namespace mtl;

namespace {

constexpr int kRows = 3;  // main weights and two moments

template <class Work>
double seconds_of(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Parameters with gradients, and their update.
class Updated {
 public:
  Updated(std::int64_t count, int threads, const std::string& folder) : stream_(Device::cpu, threads) {
    const Precision precision{.compute = DType::bf16, .residual = DType::bf16};
    store_ = std::make_unique<ParamMemory>(
        Device::cpu, precision, single_rule<AdamW>(),
        [&](const ParamVisitor& visit) { visit(param_, ParamSpec{.name = "weight", .shape = {count}}); }, Layout(),
        ParamStorage{.optimizer_folder = folder});
    const Tensor grad = store_->grad(0);
    for (std::int64_t i = 0; i < grad.numel(); ++i) grad.data<float>()[i] = float(i % 1000) * 1e-6f;
    for (const Bucket& bucket : store_->buckets())
      ranges_.push_back({.param = bucket.owned_main(),
                         .grad = bucket.owned_grads(),
                         .states = {bucket.states().begin(), bucket.states().end()},
                         .copy = bucket.owned_values()});
    if (!folder.empty()) ring_ = std::make_unique<StateRing>(*store_, ranges_, Device::cpu);
    state_.lr = 1e-4;
    state_.grad_factor = 1;
  }

  /// Returns the seconds until all state is updated and, with files, on the disk.
  double update() {
    ++state_.step;
    state_.factors[0] = AdamW().factors(state_);
    return seconds_of([&] {
      const auto rule = [&](const UpdateRange& part) { AdamW().update(stream_, part, &state_); };
      if (ring_ == nullptr) {
        for (const UpdateRange& range : ranges_) rule(range);
        return;
      }
      ring_->begin(stream_);
      for (const UpdateRange& range : ranges_) ring_->update(stream_, range, rule);
      ring_->end(stream_);
      for (std::size_t row = kFirstState; row < store_->table().size(); ++row)
        store_->location_of(row).file->settle(store_->buckets()[0].memory[row].raw(), store_->bytes(row));
    });
  }

 private:
  Stream stream_;
  Param param_;
  std::unique_ptr<ParamMemory> store_;
  std::vector<UpdateRange> ranges_;
  std::unique_ptr<StateRing> ring_;
  StepState state_;
};

/// Reads and writes files piece by piece, as the update does: each piece is on the disk when the next one is written.
class Loop {
 public:
  Loop(std::int64_t count, const std::string& folder) : count_(count) {
    for (int row = 0; row < kRows; ++row) files_.emplace_back("loop", folder, count * sizeof(float));
    for (auto& row : piece_) row.resize(StateRing::kPiece * sizeof(float));
  }

  double run() {
    return seconds_of([&] {
      for (std::int64_t begin = 0; begin < count_; begin += StateRing::kPiece) {
        const std::int64_t bytes = std::min(StateRing::kPiece, count_ - begin) * sizeof(float);
        for (int row = 0; row < kRows; ++row) files_[row].read_ahead(begin * sizeof(float), bytes);
        for (int row = 0; row < kRows; ++row)
          files_[row].read(begin * sizeof(float), {piece_[row].data(), size_t(bytes)});
        for (int row = 0; row < kRows; ++row)
          files_[row].write(begin * sizeof(float), {piece_[row].data(), size_t(bytes)});
        if (begin > 0)
          for (ScratchFile& file : files_)
            file.settle((begin - StateRing::kPiece) * sizeof(float), StateRing::kPiece * sizeof(float));
      }
      for (ScratchFile& file : files_) file.settle(0, count_ * sizeof(float));
    });
  }

 private:
  std::int64_t count_;
  std::deque<ScratchFile> files_;
  std::array<std::vector<std::byte>, kRows> piece_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("usage: mtl_bench_state FOLDER THREADS MEGAPARAMETERS ROUNDS\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  const int threads = std::atoi(argv[2]), rounds = std::atoi(argv[4]);
  const std::int64_t count = std::int64_t{std::atoi(argv[3])} << 20;
  const double gigabytes = double(count) * kRows * sizeof(float) / 1e9;
  Updated in_files(count, threads, folder), in_memory(count, threads, "");
  Loop loop(count, folder);
  in_files.update();  // the disk's blocks are written for the first time
  loop.run();
  in_memory.update();
  for (int round = 0; round < rounds; ++round) {
    double update, pieces;
    if (round % 2 == 0) {
      update = in_files.update();
      pieces = loop.run();
    } else {
      pieces = loop.run();
      update = in_files.update();
    }
    const double memory = in_memory.update();
    std::printf("{\"update_gbs\": %.4f, \"loop_gbs\": %.4f, \"ratio\": %.4f, \"update_s\": %.4f, \"memory_s\": %.4f}\n",
                gigabytes / update, gigabytes / pieces, pieces / update, update, memory);
    std::fflush(stdout);
  }
}
