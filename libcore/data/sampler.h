// A data-parallel rank's samples, one micro-batch at a time. A sampler can start at any point in a run.
//
// Let mbs be the micro-batch size, dp the number of data-parallel ranks, and B = mbs * dp.
//   single   one pass over the samples in order. From every B consecutive samples, rank r reads
//            [r * mbs, (r + 1) * mbs). A partial B at the end is dropped, or filled up with kNoSample.
//   cyclic   endless. An epoch consists of total - total % B samples. In each epoch, a rank reads the samples it
//            owns, in the order torch.randperm(seed = epoch). Without data_sharding, the ranks take samples in turn
//            from one common permutation.
// These correspond to Megatron-LM's MegatronPretrainingSampler and MegatronPretrainingRandomSampler.
#pragma once

#include <cstdint>
#include <vector>

namespace mtl {

enum class SamplerKind { single, cyclic };
inline constexpr std::int64_t kNoSample = -1;

struct SamplerOptions {
  SamplerKind kind = SamplerKind::single;
  std::int64_t total = 0;     // samples in the data set
  std::int64_t consumed = 0;  // samples already read by all ranks together
  std::int64_t micro_batch_size = 1;
  std::int64_t dp_size = 1, dp_rank = 0;
  bool data_sharding = true;  // cyclic: every rank owns a part of the samples
  bool fills_up = false;      // single: ends with kNoSample, so that no sample is dropped
};

class Sampler {
 public:
  /// Throws Error(usage) if there are no samples, if dp_rank is out of range, or if a single pass has no samples left.
  /// For cyclic, also throws Error(usage) if there are fewer than B samples, or if `consumed` is not at a multiple of B
  /// within its epoch.
  explicit Sampler(const SamplerOptions& options);

  /// Returns the sample indices for this rank's next micro-batch. Empty at the end of a single pass.
  std::vector<std::int64_t> next();
  /// How many samples all ranks together have read, as counted by this rank. A resumed run continues from there.
  std::int64_t consumed() const { return consumed_; }

 private:
  void start_epoch();

  SamplerOptions options_;
  std::int64_t batch_;               // B
  std::int64_t consumed_;            // initially options.consumed
  std::vector<std::int64_t> epoch_;  // cyclic: this rank's samples in the epoch; next unread: at_
  std::size_t at_ = 0;
};

}  // namespace mtl
