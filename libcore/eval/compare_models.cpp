#include "eval/compare_models.h"

#include <algorithm>
#include <cmath>

#include "base/memory_limits.h"
#include "eval/model.h"

namespace mtl {

namespace {

constexpr std::int64_t kSequences = 2, kMaxLength = 64;

/// Returns logits (kSequences * length, V) for tokens that depend only on the model's shape.
std::vector<float> logits_of(const ModelSource& source, int threads, Device device) {
  Model model(source, threads, DType::f32, device);
  const std::int64_t length = std::min(kMaxLength, model.positions());
  std::vector<float> logits;
  for (std::int64_t sequence = 0; sequence < kSequences; ++sequence) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = sequence * length; i < (sequence + 1) * length; ++i)
      ids.push_back(static_cast<std::int32_t>(i * 7919 % model.vocab()));
    std::vector<float> rows = model.logits(ids);
    logits.insert(logits.end(), rows.begin(), rows.end());
  }
  return logits;
}

}  // namespace

void check_comparison_memory(const GptConfig& config, Device device) {
  const std::int64_t positions = kSequences * std::min(kMaxLength, config.longest_sequence());
  const std::size_t logits = 2 * static_cast<std::size_t>(positions * config.vocab_size) * sizeof(float);
  if (device == Device::cpu)
    require_memory(weight_bytes(config, DType::f32) + logits, "the weights that --verify compares in fp32",
                   "convert without --verify, or provide more memory");
}

ModelComparison compare_models(const ModelSource& a, const ModelSource& b, int threads, Device device) {
  require(a.config() == b.config(), a.folder(), " and ", b.folder(), " have different configurations");
  std::vector<float> of_a = logits_of(a, threads, device), of_b = logits_of(b, threads, device);
  ModelComparison out;
  out.positions = std::ssize(of_a) / a.config().vocab_size;
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (!std::isfinite(of_a[i]) || !std::isfinite(of_b[i])) {
      fail(Exit::bad_data, std::isfinite(of_a[i]) ? b.folder() : a.folder(),
           ": a logit is not finite; use another model, because the weights are damaged or the training diverged");
    }
    out.max_difference = std::max(out.max_difference, std::fabs(double(of_a[i]) - of_b[i]));
    out.max_logit = std::max(out.max_logit, std::fabs(double(of_a[i])));
  }
  return out;
}

}  // namespace mtl
