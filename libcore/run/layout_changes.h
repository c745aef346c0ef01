// What may change in a run's layout without changing what it computes, and the flags for it. Two searches try these
// changes: the one for settings that fit (fitting_settings.h), and the one for the fastest layout (planner/).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/enum_index.h"
#include "run/options.h"

namespace mtl {

/// Returns true if mtl-train would accept the options for this model.
bool can_run(const TrainOptions& options, const GptConfig& config);

/// Returns the ZeRO stages that replicas with this pipeline and schedule can use, ascending: 0, 1, not 2 if weight
/// gradients are left for later, not 3 with a pipeline. Only 0 for one replica.
std::vector<std::int64_t> zero_stages(const ParallelOptions& parallel);
void set_zero_stage(ParallelOptions& parallel, std::int64_t stage);

/// What saves memory and costs time.
enum class Saving {
  recompute_attention,
  recompute_layers,
  offload_optimizer,    // to host memory
  offload_activations,  // to host memory
  offload_to_files      // the optimizer's state, to a folder that flags call DIR
};
constexpr unsigned bit(Saving saving) { return 1U << enum_index(saving); }
/// In the order in which they are tried.
inline constexpr std::array kSavings = {Saving::recompute_attention, Saving::recompute_layers,
                                        Saving::offload_optimizer, Saving::offload_activations,
                                        Saving::offload_to_files};
/// Changes the options. Returns false, and changes nothing, if the run saves this already, or if it would have no
/// effect.
bool save(TrainOptions& options, Saving saving);

/// Returns the flags that change `from` into `to`: words of a command line. Considers what the searches change, which
/// is the layout, the batches, --bf16, --grad-reduce-in-bf16, --seq-length and --async-save.
std::vector<std::string> changed_flags(const TrainOptions& from, const TrainOptions& to);

}  // namespace mtl
