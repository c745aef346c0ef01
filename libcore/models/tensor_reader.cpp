#include "models/tensor_reader.h"

#include <algorithm>
#include <map>

#include "base/count_of.h"
#include "models/canonical.h"

namespace mtl {

std::int64_t checked_progress(std::int64_t number, const char* what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (number < 0 || number > kMost)
    fail(Exit::bad_data, "the checkpoint's ", what, " is ", number, ", but must be from 0 to ", kMost);
  return number;
}

void set_optimizer_steps(TrainState& state, std::int64_t steps) {
  if (steps < 0 || steps > state.iteration)
    fail(Exit::bad_data, "the optimizer has taken ", steps, " steps in ", state.iteration, " iterations");
  state.optimizer_steps = steps;
  state.skipped_iterations = state.iteration - steps;
}

void fail_problems(const std::string& where, std::vector<std::string> problems) {
  std::size_t more = problems.size() > 8 ? problems.size() - 8 : 0;
  problems.resize(problems.size() - more);
  if (more > 0) problems.push_back(cat("and ", more, " more"));
  fail_at(Exit::bad_data, where, join(problems, "\n  "));
}

std::vector<std::string> TensorReader::kinds() const {
  return tensor_kinds([&](const std::string& kind) {
    return std::ranges::any_of(tensors,
                               [&](const SavedTensor& tensor) { return starts_with(tensor.name, kind + "."); });
  });
}

std::vector<NonfiniteTensor> TensorReader::find_nonfinite(std::size_t index) const {
  const SavedTensor& tensor = tensors[index];
  const Slice whole = whole_slice(tensor.shape);
  std::vector<std::byte> elements(whole.count() * bits_of(tensor.dtype) / 8);
  read(index, whole, elements);
  const std::size_t nonfinite = count_nonfinite(tensor.dtype, elements);
  if (nonfinite == 0) return {};
  return {{folder, tensor.name, static_cast<std::size_t>(whole.count()), nonfinite}};
}

void TensorReader::check_complete() const {
  std::vector<std::string> problems;
  // Every layer has multiple tensors. Reject an absurd number of layers before canonical_tensors() lists them all.
  if (config.num_layers > std::ssize(tensors)) {
    fail(Exit::bad_data, folder, " has ", count_of(tensors.size(), "tensor"), ", too few for a model with ",
         count_of(config.num_layers, "layer"));
  }
  std::map<std::string, const SavedTensor*> unmatched;
  for (const SavedTensor& tensor : tensors) unmatched[tensor.name] = &tensor;
  const std::vector<std::string> found_kinds = kinds();
  for (const CanonicalTensor& canonical : canonical_tensors(config)) {
    const auto holds = [&](const std::string& kind) { return unmatched.contains(cat(kind, ".", canonical.name)); };
    for (const std::string& kind : param_kinds(found_kinds, holds)) {
      std::string name = cat(kind, ".", canonical.name);
      auto found = unmatched.find(name);
      if (found == unmatched.end()) {
        problems.push_back(cat("tensor '", name, "' is missing"));
        continue;
      }
      if (found->second->shape != canonical.shape) {
        problems.push_back(cat("tensor '", name, "' has shape ", shape_text(found->second->shape),
                               ", but the configuration needs ", shape_text(canonical.shape)));
      } else if (!is_model_dtype(found->second->dtype)) {
        problems.push_back(cat("tensor ", stored_name(found->second - tensors.data()), " is stored as ",
                               name_of(found->second->dtype),
                               ", but mtl reads only F16, BF16, F32 and F64; use weights that are not quantized"));
      }
      unmatched.erase(found);
    }
  }
  for (const auto& [name, tensor] : unmatched)
    problems.push_back(cat("tensor '", name, "' is not part of the model that the configuration describes"));
  if (!problems.empty()) fail_problems(folder, std::move(problems));
}

}  // namespace mtl
