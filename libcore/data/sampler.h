// The samples of a data-parallel rank, one micro-batch at a time, from any point of a run.
//
// With mbs the micro-batch size, dp the number of ranks and B = mbs * dp:
//   single   samples in order: rank r reads [r * mbs, (r + 1) * mbs) of every B consecutive samples. One pass;
//            drops a partial B at the end.
//   cyclic   endless: in each epoch a rank reads the samples it owns in the order of torch.randperm(seed = epoch).
//            total - total % B samples make an epoch. Without sharding, ranks take turns in one common permutation.
// These are Megatron-LM's MegatronPretrainingSampler and MegatronPretrainingRandomSampler.
#pragma once

#include <cstdint>
#include <vector>

namespace mtl {

enum class SamplerKind { single, cyclic };

struct SamplerOptions {
  SamplerKind kind = SamplerKind::single;
  std::int64_t total = 0;     // samples in the data set
  std::int64_t consumed = 0;  // samples that all ranks together have read
  std::int64_t micro_batch_size = 1;
  std::int64_t dp_size = 1, dp_rank = 0;
  bool data_sharding = true;  // cyclic: every rank owns a part of the samples
};

class Sampler {
 public:
  /// Throws Error(usage) for no samples, a single pass with none left, or a rank out of range; for cyclic also for
  /// fewer than B samples, or a start that is not a multiple of B within its epoch.
  explicit Sampler(const SamplerOptions& options);

  /// The sample indices of this rank's next micro-batch; empty at the end of a single pass.
  std::vector<std::int64_t> next();
  /// Samples that all ranks together have read, as this rank counts them: where a resumed run starts.
  std::int64_t consumed() const { return consumed_; }

 private:
  void start_epoch();

  SamplerOptions options_;
  std::int64_t batch_;               // B
  std::int64_t consumed_;            // starts at options.consumed
  std::vector<std::int64_t> epoch_;  // cyclic: this rank's samples of the epoch, unread from at_
  std::size_t at_ = 0;
};

}  // namespace mtl
