// One tiny model in many layouts. An element's value depends only on a seed, the tensor's name and the element's index
// in the whole tensor. Any rank can therefore check the elements it holds.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/open_model.h"
#include "ckpt_fixtures.h"
#include "engine/stage.h"
#include "tests/comm/thread_group.h"

namespace mtl::test {

struct TestLayout {
  const char* name;
  int tensor = 1, pipeline = 1, data = 1;
  int zero = 0;
  std::int64_t vocab_multiple = 1;

  RankGrid grid() const { return RankGrid({.tensor = tensor, .data = data, .pipeline = pipeline}); }
};

// The token embedding has 11 rows. When it is divided in two, its last part has one padding row if padded to 12 rows,
// five if padded to 16, and nothing but padding if padded to 256.
inline const std::vector<TestLayout> kTestLayouts = {
    {.name = "one rank"},
    {.name = "tp 2", .tensor = 2, .vocab_multiple = 8},
    {.name = "pp 2", .pipeline = 2, .vocab_multiple = 16},
    {.name = "dp 2", .data = 2},
    {.name = "dp 2, ZeRO-1", .data = 2, .zero = 1},
    {.name = "tp 2, pp 2", .tensor = 2, .pipeline = 2, .vocab_multiple = 6},
    {.name = "dp 3, ZeRO-3", .data = 3, .zero = 3},
    {.name = "tp 2, dp 2, ZeRO-3", .tensor = 2, .data = 2, .zero = 3, .vocab_multiple = 128},
    {.name = "tp 2, pp 2, dp 2, ZeRO-2", .tensor = 2, .pipeline = 2, .data = 2, .zero = 2, .vocab_multiple = 8}};
inline const TestLayout& kOneRank = kTestLayouts.front();

inline GptConfig layouts_config() { return tiny_config(3); }

/// Returns a Llama of the same size, but with four heads in two groups.
inline GptConfig llama_layouts_config() {
  return llama_of_size({.vocab = 11, .layers = 3, .hidden = 8, .heads = 4, .positions = 5});
}

/// The part of the model that one rank holds.
class RankModel {
 public:
  RankModel(const TestLayout& layout, const RankGrid& grid, int rank, const GptConfig& config = layouts_config(),
            const Precision& precision = kPrecisionFp32)
      : stage_(make_stage(config, {}, shape_of(layout, grid, rank, config))),
        params(Device::cpu, precision, single_rule<AdamW>(), [&](const ParamVisitor& visit) { stage_.params(visit); },
               shape_of(layout, grid, rank, config).layout, {.bucket_elements = 300}) {}  // multiple buckets

 private:
  static RunShape shape_of(const TestLayout& layout, const RankGrid& grid, int rank, const GptConfig& config) {
    RunShape shape;
    shape.padded_vocab = padded_vocab_size(config.vocab_size, layout.vocab_multiple, layout.tensor);
    Layout& out = shape.layout;
    out.grid = grid;
    out.rank = rank;
    out.sequence_parallel = layout.pipeline > 1;
    out.zero = layout.zero;
    if (layout.pipeline == 2) out.split.first_stage_layers = 2;  // out of three
    return shape;
  }
  Stage stage_;

 public:
  ParamMemory params;
};

/// Returns element `at` of a tensor. The value is exact in fp32 and within f16's range; f16 and bf16 round it.
inline float true_element(const std::string& name, std::int64_t at, int seed) {
  return static_cast<float>((hash_bytes(name.data(), name.size()) + static_cast<std::uint64_t>(seed)) % 1024 * 4096 +
                            static_cast<std::uint64_t>(at)) /
         1024;
}

inline float rounded(float value, DType dtype) {
  return with_float_type(dtype, [&]<class T>(T) { return widen(narrow<T>(value)); });
}

inline float element_of(const Tensor& memory, std::int64_t at) {
  return with_float_type(memory.dtype(), [&]<class T>(T) { return widen(memory.data<T>()[at]); });
}

inline void set_element(const Tensor& memory, std::int64_t at, float value) {
  with_float_type(memory.dtype(), [&]<class T>(T) { memory.data<T>()[at] = narrow<T>(value); });
}

constexpr float kUntouched = -1;

/// Calls `visit(name, whole_shape, slice, memory)` for all values, main weights and moments.
template <class Visit>
void visit_tensors(const ParamMemory& params, const Visit& visit) {
  for (std::size_t row = 0; row < params.table().size(); ++row) {
    if (row == kGradients) continue;
    const std::string kind = row == kValues ? kParamKind : params.table()[row].kind;
    for (int i = 0; i < params.size(); ++i) {
      const ParamSpec& spec = params.specs()[static_cast<std::size_t>(i)];
      Slice slice = params.row_slice(i, row);
      if (slice.count() > 0 || row == kValues)
        visit(cat(kind, ".", spec.name), spec.shape, slice, params.row_part(i, row));
    }
  }
}

/// Sets elements to true_element(), and padding to kUntouched. If `seed` is negative, sets everything to kUntouched.
inline void fill_true(const ParamMemory& params, int seed) {
  visit_tensors(params, [&](const std::string& name, const auto& shape, const Slice& slice, Tensor memory) {
    for (std::int64_t k = 0; k < memory.numel(); ++k) set_element(memory, k, kUntouched);
    for_each_overlap(whole_slice(shape), slice, [&](const Overlap& run) {
      for (std::int64_t k = 0; k < run.count && seed >= 0; ++k)
        set_element(memory, run.in_b + k, true_element(name, run.in_a + k, seed));
    });
  });
}

/// Returns the number that element `at` of tensor `name` must have after a load, before it is rounded to its dtype.
using ElementToLoad = std::function<float(const std::string& name, std::int64_t at)>;

/// Counts the values and main weights that differ from `element`, and the padding that is not kUntouched. Also checks
/// the moments if `with_moments`.
inline int count_wrong(const ParamMemory& params, const ElementToLoad& element, bool with_moments = true) {
  int wrong = 0;
  visit_tensors(params, [&](const std::string& name, const auto& shape, const Slice& slice, Tensor memory) {
    if (!with_moments && !starts_with(name, "param.")) return;
    std::vector<float> expected(static_cast<std::size_t>(memory.numel()), kUntouched);
    for_each_overlap(whole_slice(shape), slice, [&](const Overlap& run) {
      for (std::int64_t k = 0; k < run.count; ++k)
        expected[static_cast<std::size_t>(run.in_b + k)] = rounded(element(name, run.in_a + k), memory.dtype());
    });
    for (std::size_t k = 0; k < expected.size(); ++k)
      wrong += element_of(memory, static_cast<std::int64_t>(k)) != expected[k];
  });
  return wrong;
}

/// As above, for the elements that fill_true() sets with this seed.
inline int count_wrong(const ParamMemory& params, int seed, bool with_moments = true) {
  return count_wrong(
      params, [&](const std::string& name, std::int64_t at) { return true_element(name, at, seed); }, with_moments);
}

/// Opens the save folder as rank `rank`.
inline SaveDirectory open_save(int rank, const std::string& directory) {
  return rank == 0 ? SaveDirectory(directory) : SaveDirectory::of_other_rank(directory);
}

/// Saves from all ranks of a layout, filled with seed `iteration`. Returns each rank's error, or "". A save that writes
/// `behind` goes on while the parameters change.
inline std::vector<std::string> save_from(const TestLayout& layout, const std::string& directory, int iteration,
                                          SaveOptions options = {}, const GptConfig& config = layouts_config(),
                                          const Precision& precision = kPrecisionFp32,
                                          Writes writes = Writes::in_finish) {
  RankGrid grid = layout.grid();
  std::vector<std::string> errors(static_cast<std::size_t>(grid.world()));
  run_ranks(grid, [&](int rank, const ProcessGroups& groups) {
    RankModel model(layout, grid, rank, config, precision);
    fill_true(model.params, iteration);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      SaveDirectory save = open_save(rank, directory);
      save_as(writes, save, config, model.params, state_at(iteration), options, groups.world(),
              [&] { fill_true(model.params, -1); });
    });
  });
  return errors;
}

/// Loads values and moments into all ranks of a layout; returns each rank's error, or "". Calls
/// `check(rank, params, source)` on ranks that succeed. With `initial`, loads only the values, like a run that starts
/// from a model's weights.
template <class Check>
std::vector<std::string> load_into(const TestLayout& layout, const std::string& folder, const Check& check,
                                   const GptConfig& config = layouts_config(),
                                   const Precision& precision = kPrecisionFp32, bool initial = false) {
  RankGrid grid = layout.grid();
  std::vector<std::string> errors(static_cast<std::size_t>(grid.world()));
  run_ranks(grid, [&](int rank, const ProcessGroups&) {
    RankModel model(layout, grid, rank, config, precision);
    fill_true(model.params, -1);
    errors[static_cast<std::size_t>(rank)] = error_of([&] {
      Console console = quiet_console();
      ModelSource source = open_model(folder, console);
      initial ? source.load_initial_values(model.params) : source.load_values(model.params);
      if (source.has_optimizer() && !initial) source.load_optimizer(model.params);
      check(rank, model.params, source);
    });
  });
  return errors;
}

/// Counts the wrong elements on all ranks after a load. Returns -1 if a rank could not load.
inline int wrong_after_load(const TestLayout& layout, const std::string& folder, int seed,
                            const GptConfig& config = layouts_config()) {
  std::atomic<int> wrong = 0;
  auto count = [&](int, const ParamMemory& params, const ModelSource& source) {
    wrong += count_wrong(params, seed, source.has_optimizer());
  };
  for (const std::string& error : load_into(layout, folder, count, config)) {
    if (!error.empty()) return -1;
  }
  return wrong;
}

}  // namespace mtl::test
