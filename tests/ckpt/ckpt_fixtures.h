// Fixtures for the checkpoint tests: tiny models, and parameters filled with known numbers.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/fault_plan.h"
#include "base/files.h"
#include "ckpt/checkpoint.h"
#include "ckpt/open_model.h"
#include "comm/groups.h"
#include "models/canonical.h"
#include "models/model_source.h"
#include "tests/error_of.h"
#include "tests/gpt_of_size.h"
#include "tests/scratch_folder.h"
#include "tests/stderr_of.h"

namespace mtl::test {

inline Console quiet_console() {
  Console console("test");
  console.quiet = true;
  return console;
}

inline GptConfig tiny_config(std::int64_t layers = 1) {
  return gpt_of_size({.vocab = 11, .layers = layers, .hidden = 8, .heads = 2, .positions = 5});
}

/// Returns a slice's elements in fp32.
inline std::vector<float> elements_of(const ModelSource& source, const std::string& name, const Slice& slice) {
  const SavedTensor* tensor = source.find_tensor(name);
  REQUIRE(tensor != nullptr);
  std::vector<std::byte> stored(slice.count() * bits_of(tensor->dtype) / 8);
  source.read(name, slice, stored);
  std::vector<float> out(slice.count());
  to_float(tensor->dtype, stored, out);
  return out;
}

/// A model's parameters, without the layers that use them.
struct TestParams {
  explicit TestParams(const GptConfig& config, bool with_gradients = true, std::int64_t padded_vocab = 0,
                      const Precision& precision = kPrecisionFp32)
      : handles(canonical_tensors(config).size()),
        params(Device::cpu, precision, with_gradients ? single_rule<AdamW>() : RuleSet(),
               [&](const ParamVisitor& visit) {
                 std::size_t next = 0;
                 for (const CanonicalTensor& tensor : canonical_tensors(config)) {
                   ParamSpec spec;
                   spec.name = tensor.name;
                   spec.shape = tensor.shape;
                   if (tensor.name == "embedding.tokens.weight") spec.padded_rows = padded_vocab;
                   visit(handles[next++], spec);
                 }
               }) {}

  std::vector<Param> handles;
  ParamMemory params;
};

/// Fills values and moments, including padding. Each element depends on the seed, the parameter, its index, and whether
/// it belongs to the value or to one of the moments.
inline void fill(ParamMemory& params, float seed) {
  auto fill_tensor = [&](Tensor tensor, int role, int param) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      tensor.data<float>()[i] = seed + 0.001f * static_cast<float>(i) + 10.0f * static_cast<float>(param) +
                                1000.0f * static_cast<float>(role);
    }
  };
  int role = 0;
  for (std::size_t row = 0; row < params.table().size(); ++row) {
    if (params.table()[row].kind.empty()) continue;
    for (int i = 0; i < params.size(); ++i) fill_tensor(params.row_part(i, row), role, i);
    ++role;
  }
}

/// Returns true if the values of `a` and `b` have the same bits. Also compares the moments if both have them.
/// Padding is ignored.
inline bool same_tensors(const ParamMemory& a, const ParamMemory& b) {
  for (std::size_t row = 0; row < std::min(a.table().size(), b.table().size()); ++row) {
    if (a.table()[row].kind.empty()) continue;
    for (int i = 0; i < a.size(); ++i) {
      auto bytes = static_cast<std::size_t>(a.slice(i).count()) * 4;
      if (std::memcmp(a.row_part(i, row).raw(), b.row_part(i, row).raw(), bytes) != 0) return false;
    }
  }
  return true;
}

inline TrainState state_at(std::int64_t iteration) {
  TrainState state;
  state.iteration = iteration;
  state.consumed_samples = 8 * iteration;
  state.consumed_valid_samples = 3;
  state.optimizer_steps = iteration + 1;
  state.skipped_iterations = 1;
  state.loss_scale = 65536.5;
  state.extra = Json::object({{"seed", 1234}, {"data", Json::array().push("x")}});
  return state;
}

/// Saves as one rank of a job, and writes while the save is finished.
inline std::string save_in_turn(const SaveDirectory& save, const GptConfig& config, const ParamMemory& params,
                                const TrainState& state, const SaveOptions& options, Communicator& world) {
  return save.finish(*save.begin(config, params, state, options, world), world);
}

/// Saves as the only process of a job.
inline std::string save_alone(const SaveDirectory& save, const GptConfig& config, const ParamMemory& params,
                              const TrainState& state, const SaveOptions& options = {}) {
  return save_in_turn(save, config, params, state, options, ProcessGroups().world());
}

/// How a save writes: while it is finished, or on a thread from a copy that its beginning makes.
enum class Writes { in_finish, behind };

/// Returns memory for a copy of what a rank saves.
inline std::vector<std::byte> memory_for_copy(const ParamMemory& params) {
  std::size_t bytes = 0;
  for (std::size_t row = 0; row < params.table().size(); ++row) bytes += params.bytes(row);
  return std::vector<std::byte>(bytes);
}

/// Saves as one rank of a job. If the save writes `behind`, calls `change` between its beginning and its end.
inline std::string save_as(Writes writes, const SaveDirectory& save, const GptConfig& config, const ParamMemory& params,
                           const TrainState& state, const SaveOptions& options, Communicator& world,
                           const std::function<void()>& change) {
  if (writes == Writes::in_finish) return save_in_turn(save, config, params, state, options, world);
  std::vector<std::byte> copy = memory_for_copy(params);
  const auto pending = save.begin(config, params, state, options, world, copy);
  change();
  return save.finish(*pending, world);
}

inline ModelSource open_quietly(const std::string& path) {
  Console console = quiet_console();
  return open_model(path, console);
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

inline void flip_bit(const std::string& path, std::uint64_t byte) {
  std::string content = read_file(path);
  content.at(byte) = static_cast<char>(content[byte] ^ 1);
  OutputFile out(path);
  out.write(content);
  out.close();
}

inline void write_text(const std::string& path, std::string_view text) {
  OutputFile out(path);
  out.write(text);
  out.close();
}

/// Calls `work` in a child process with these faults. Returns 0, the code of the Error that it threw, 1 for any other
/// exception, or 128 + the signal that ended the child.
template <class Work>
int run_under_fault(const std::string& fault, const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    plan_faults(fault);
    try {
      work();
    } catch (const Error& error) {
      std::_Exit(static_cast<int>(error.code()));
    } catch (...) {
      std::_Exit(1);
    }
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace mtl::test
