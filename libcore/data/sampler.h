// The samples that a data-parallel rank gets, micro-batch after micro-batch, from any point of a run.
//
// With mbs the micro-batch size, dp the number of ranks and B = mbs * dp:
//   single   samples in their order: of each B consecutive ones, rank r takes [r * mbs, (r + 1) * mbs). One pass; a
//            last partial B is dropped.
//   cyclic   endless: epoch after epoch, the samples each rank owns in the order of torch.randperm(seed = epoch).
//            total - total % B samples make an epoch. Without sharding the ranks deal out one common permutation.
// These are Megatron-LM's MegatronPretrainingSampler and MegatronPretrainingRandomSampler.
#pragma once

#include <cstdint>
#include <vector>

namespace mtl {

enum class SamplerKind { single, cyclic };

struct SamplerOptions {
  SamplerKind kind = SamplerKind::single;
  std::int64_t total = 0;     // samples in the data set
  std::int64_t consumed = 0;  // samples of it that all ranks together have had
  std::int64_t micro_batch_size = 1;
  std::int64_t dp_size = 1, dp_rank = 0;
  bool data_sharding = true;  // cyclic: every rank owns a part of the samples
};

class Sampler {
 public:
  /// Throws Error(usage) for what cannot be sampled: no samples (left), a rank beyond dp_size; for cyclic also fewer
  /// than B samples, or a start inside a B.
  explicit Sampler(const SamplerOptions& options);

  /// The sample numbers of this rank's next micro-batch; empty when a single pass is over.
  std::vector<std::int64_t> next();
  /// Samples that all ranks together have had, as this rank counts them: where a resumed run starts again.
  std::int64_t consumed() const { return consumed_; }

 private:
  void start_epoch();

  SamplerOptions options_;
  std::int64_t batch_;               // B
  std::int64_t consumed_;            // as options.consumed, and then counted on
  std::vector<std::int64_t> epoch_;  // cyclic: what is left of this rank's epoch is [at_, end)
  std::size_t at_ = 0;
};

}  // namespace mtl
