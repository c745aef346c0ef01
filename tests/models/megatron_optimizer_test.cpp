// Optimizer state from Megatron-LM's 16-bit runs: the moments and fp32 weights from every rank are merged.
#include <doctest/doctest.h>

#include "ckpt/open_model.h"
#include "formats/torch_writer.h"
#include "optim/precision_presets.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"
#include "tests/param_index.h"

using namespace mtl;
using namespace mtl::test;
using namespace std::string_literals;

namespace {

struct RankParameter {
  const char* name;
  std::vector<std::int64_t> shape;  // on each of two tensor-parallel ranks
  bool is_split = false;            // the ranks have different parts
};

/// The parameters of a one-layer model with hidden size 8: 12 tokens, 5 positions, 2 heads, feed-forward size 16.
const std::vector<RankParameter>& rank_parameters() {
  static const std::vector<RankParameter> parameters = {
      {"embedding.word_embeddings.weight", {6, 8}, true},
      {"embedding.position_embeddings.weight", {5, 8}},
      {"decoder.layers.0.input_layernorm.weight", {8}},
      {"decoder.layers.0.input_layernorm.bias", {8}},
      {"decoder.layers.0.self_attention.linear_proj.weight", {8, 4}, true},
      {"decoder.layers.0.self_attention.linear_proj.bias", {8}},
      {"decoder.layers.0.self_attention.linear_qkv.weight", {12, 8}, true},
      {"decoder.layers.0.self_attention.linear_qkv.bias", {12}, true},
      {"decoder.layers.0.pre_mlp_layernorm.weight", {8}},
      {"decoder.layers.0.pre_mlp_layernorm.bias", {8}},
      {"decoder.layers.0.mlp.linear_fc1.weight", {8, 8}, true},
      {"decoder.layers.0.mlp.linear_fc1.bias", {8}, true},
      {"decoder.layers.0.mlp.linear_fc2.weight", {8, 8}, true},
      {"decoder.layers.0.mlp.linear_fc2.bias", {8}},
      {"decoder.final_layernorm.weight", {8}},
      {"decoder.final_layernorm.bias", {8}},
  };
  return parameters;
}

enum class StateRole { weight, main, exp_avg, exp_avg_sq };

/// Returns the value stored in all elements of a rank's tensor. For StateRole::main, bf16 cannot represent it.
float value_of(std::size_t parameter, int rank, StateRole role) {
  return static_cast<float>(parameter) + 0.5f * static_cast<float>(rank) + 100.25f * static_cast<float>(role);
}

struct OptimizerFault {
  bool lacks_main = false, lacks_parameter = false;
  bool lacks_linear_biases = false;     // no fault: the model has as many matrices as vectors
  std::vector<int> ranks_without = {};  // their files have no optimizer entry
  std::size_t groups = 2;               // 1: no fault
  bool is_swapped = false;              // no fault: vectors are the first group
  std::size_t main_groups = 2;          // of which there are main weights
  bool lacks_last_main = false, has_half_moments = false;
};

/// Writes one rank's model_optim_rng.pt.
class RankFile {
 public:
  RankFile(const std::string& path, int rank, const OptimizerFault& fault)
      : file_(path), writer_(file_, "model_optim_rng"), pickle_(writer_.pickle()), rank_(rank), fault_(fault) {}

  void write() {
    pickle_.begin_dict();
    write_args();
    pickle_.text("checkpoint_version"), pickle_.number(3);
    pickle_.text("iteration"), pickle_.integer(40);
    pickle_.text("model");
    pickle_.begin_dict();
    for (std::size_t i = 0; i < rank_parameters().size(); ++i) {
      if (has(i)) add(rank_parameters()[i].name, i, StateRole::weight);
    }
    pickle_.end_dict();
    if (std::ranges::count(fault_.ranks_without, rank_) == 0) {
      pickle_.text("optimizer");
      write_optimizer();
    }
    pickle_.text("opt_param_scheduler");
    pickle_.begin_dict();
    pickle_.text("num_steps"), pickle_.integer(304);
    pickle_.end_dict();
    pickle_.end_dict();
    for (const std::vector<std::byte>& elements : data_) writer_.write_data(elements);
    writer_.finish();
    file_.close();
  }

 private:
  bool has(std::size_t parameter) const {
    const std::string name = rank_parameters()[parameter].name;
    return !fault_.lacks_linear_biases || !contains(name, "linear_") || !ends_with(name, ".bias");
  }

  void write_args() {
    pickle_.text("args");
    pickle_.global("argparse", "Namespace");
    pickle_.begin_tuple();
    pickle_.end_tuple();
    pickle_.new_object();
    pickle_.begin_dict();
    pickle_.text("num_attention_heads"), pickle_.integer(2);
    pickle_.text("bias_gelu_fusion"), pickle_.boolean(true);
    pickle_.text("tensor_model_parallel_size"), pickle_.integer(2);
    pickle_.text("consumed_train_samples"), pickle_.integer(320);
    pickle_.end_dict();
    pickle_.build();
  }

  void add(const char* key, std::size_t parameter, StateRole role) {
    pickle_.text(key);
    add(parameter, role);
  }

  void add(std::size_t parameter, StateRole role) {
    const std::vector<std::int64_t>& shape = rank_parameters()[parameter].shape;
    const bool is_half = role == StateRole::weight || (role == StateRole::exp_avg_sq && fault_.has_half_moments);
    const StoredDType dtype = is_half ? StoredDType::f16 : StoredDType::f32;
    writer_.tensor(dtype, shape);
    const std::vector<float> values(whole_slice(shape).count(),
                                    value_of(parameter, rank_parameters()[parameter].is_split ? rank_ : 0, role));
    std::vector<std::byte>& elements = data_.emplace_back(values.size() * bits_of(dtype) / 8);
    convert_elements(StoredDType::f32, std::as_bytes(std::span(values)), dtype, elements);
  }

  /// Returns the parameters in each group: matrices, which are decayed, and vectors, which are not; or all.
  std::vector<std::vector<std::size_t>> groups() const {
    std::vector<std::vector<std::size_t>> out(fault_.groups);
    for (std::size_t i = 0; i < rank_parameters().size(); ++i) {
      if (has(i)) out[rank_parameters()[i].shape.size() > 1 || fault_.groups == 1 ? 0 : 1].push_back(i);
    }
    if (fault_.lacks_parameter) out[1].pop_back();
    if (fault_.is_swapped) std::swap(out[0], out[1]);
    return out;
  }

  void write_optimizer() {
    pickle_.begin_dict();
    pickle_.text("optimizer");
    pickle_.begin_dict();
    write_states();
    write_groups();
    pickle_.end_dict();
    if (!fault_.lacks_main) write_main();
    pickle_.end_dict();
  }

  void write_states() {
    pickle_.text("state");
    pickle_.begin_dict();
    std::int64_t id = 0;
    for (const std::vector<std::size_t>& group : groups()) {
      for (std::size_t parameter : group) {
        pickle_.integer(id++);
        pickle_.begin_dict();
        add("exp_avg", parameter, StateRole::exp_avg);
        add("exp_avg_sq", parameter, StateRole::exp_avg_sq);
        pickle_.end_dict();
      }
    }
    pickle_.end_dict();
  }

  void write_main() {
    pickle_.text("fp32_from_fp16_params");
    pickle_.begin_list();
    std::vector<std::vector<std::size_t>> all = groups();
    all.resize(std::min(all.size(), fault_.main_groups));
    if (fault_.lacks_last_main) all.back().pop_back();
    for (const std::vector<std::size_t>& group : all) {
      pickle_.begin_list();
      for (std::size_t parameter : group) add(parameter, StateRole::main);
      pickle_.end_list();
    }
    pickle_.end_list();
  }

  void write_groups() {
    pickle_.text("param_groups");
    pickle_.begin_list();
    std::int64_t id = 0;
    for (const std::vector<std::size_t>& group : groups()) {
      pickle_.begin_dict();
      pickle_.text("step"), pickle_.integer(38);
      pickle_.text("params");
      pickle_.begin_list();
      for (std::size_t i = 0; i < group.size(); ++i) pickle_.integer(id++);
      pickle_.end_list();
      pickle_.end_dict();
    }
    pickle_.end_list();
  }

  OutputFile file_;
  TorchWriter writer_;
  PickleWriter& pickle_;
  int rank_;
  OptimizerFault fault_;
  std::vector<std::vector<std::byte>> data_;
};

/// Writes both ranks' files, edits them, and opens them.
ModelSource open_run(const ScratchFolder& scratch, const OptimizerFault& fault,
                     const std::vector<PickleEdit>& edits = {}) {
  for (int rank = 0; rank < 2; ++rank) {
    const std::string folder = cat(scratch.path(), "/iter_0000040/mp_rank_0", rank);
    make_directories(folder);
    RankFile(folder + "/model_optim_rng.pt", rank, fault).write();
  }
  write_text(scratch / "latest_checkpointed_iteration.txt", "40");
  for (const PickleEdit& edit : edits) apply_edit(scratch.path(), edit);
  Console console = quiet_console();
  return open_model(scratch.path(), console, {.vocab_size = 12, .num_attention_heads = {}});
}

std::vector<float> elements_of(const ModelSource& source, const std::string& name) {
  const SavedTensor* tensor = source.find_tensor(name);
  REQUIRE(tensor != nullptr);
  const Slice whole = whole_slice(tensor->shape);
  std::vector<std::byte> stored(whole.count() * bits_of(tensor->dtype) / 8);
  source.read(name, whole, stored);
  std::vector<float> out(whole.count());
  to_float(tensor->dtype, stored, out);
  return out;
}

}  // namespace

TEST_CASE("megatron: a 16-bit run resumes from the fp32 weights and moments of all ranks") {
  const ScratchFolder scratch;
  const ModelSource source = open_run(scratch, {});
  CHECK(source.optimizer_problem().empty());
  REQUIRE(source.has_optimizer());
  REQUIRE(source.state());
  CHECK(source.state()->iteration == 40);
  CHECK(source.state()->optimizer_steps == 38);
  CHECK(source.state()->skipped_iterations == 2);
  CHECK(source.state()->consumed_samples == 320);
  CHECK(source.state()->extra.int_or("skipped_samples", -1) == 16);
  const std::pair<std::string, StateRole> kinds[] = {
      {"param.", StateRole::main}, {"exp_avg.", StateRole::exp_avg}, {"exp_avg_sq.", StateRole::exp_avg_sq}};
  for (const auto& kind : kinds) {
    const std::string& prefix = kind.first;
    const StateRole role = kind.second;
    CAPTURE(prefix);
    const std::vector<float> tokens = elements_of(source, prefix + "embedding.tokens.weight");
    REQUIRE(tokens.size() == 12 * 8);
    for (std::size_t i = 0; i < tokens.size(); ++i) CHECK(tokens[i] == value_of(0, i < 6 * 8 ? 0 : 1, role));
    const std::vector<float> out = elements_of(source, prefix + "layers.0.attention.out.weight");
    REQUIRE(out.size() == 8 * 8);
    for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == value_of(4, i % 8 < 4 ? 0 : 1, role));
    for (float value : elements_of(source, prefix + "final_norm.bias")) CHECK(value == value_of(15, 0, role));
  }
}

TEST_CASE("megatron: a bf16 run loads the fp32 weights as main weights, and rounds its values from them") {
  const ScratchFolder scratch;
  const ModelSource source = open_run(scratch, {});
  TestParams model(source.config(), true, 0, find_precision("bf16"));
  source.load_values(model.params);
  source.load_optimizer(model.params);
  const int param = test::param_index(model.params, "layers.0.attention.out.weight");
  const Tensor main = model.params.row_part(param, model.params.main_row()), value = model.params.value(param);
  REQUIRE(main.numel() == 8 * 8);
  bool is_rounded = false;
  for (std::int64_t i = 0; i < main.numel(); ++i) {
    const float expected = value_of(4, i % 8 < 4 ? 0 : 1, StateRole::main);
    CHECK(main.data<float>()[i] == expected);
    CHECK(value.data<Bf16>()[i].bits == f32_to_bf16(expected));
    is_rounded = is_rounded || widen(value.data<Bf16>()[i]) != expected;
  }
  CHECK(is_rounded);
}

TEST_CASE("megatron: of as many matrices as vectors, each group has its own states") {
  const ScratchFolder scratch;
  const ModelSource source = open_run(scratch, {.lacks_linear_biases = true});
  CHECK(source.optimizer_problem().empty());
  REQUIRE(source.has_optimizer());
  for (float value : elements_of(source, "exp_avg.final_norm.bias"))
    CHECK(value == value_of(15, 0, StateRole::exp_avg));
}

TEST_CASE("megatron: an incomplete optimizer state leaves the weights loadable") {
  for (const OptimizerFault& fault : {OptimizerFault{.lacks_main = true}, OptimizerFault{.lacks_parameter = true}}) {
    const ScratchFolder scratch;
    const ModelSource source = open_run(scratch, fault);
    CHECK(!source.has_optimizer());
    REQUIRE(source.state());  // so that a run can continue with moments of zero
    CHECK(source.state()->iteration == 40);
    CHECK(contains(source.optimizer_problem(), fault.lacks_main ? "no 'fp32_from_fp16_params'" : "in group 1, but"));
    for (float value : elements_of(source, "param.final_norm.bias")) CHECK(value == value_of(15, 0, StateRole::weight));
  }
}

TEST_CASE("megatron: an optimizer state that the first rank's file does not mention is a problem, not a fresh start") {
  const std::string path = "/iter_0000040/mp_rank_01/";
  for (const bool is_distributed : {false, true}) {
    const ScratchFolder scratch;
    make_directories(scratch.path() + path);
    if (is_distributed) write_text(scratch.path() + path + "distrib_optim.pt", "");
    const ModelSource source =
        open_run(scratch, {.ranks_without = is_distributed ? std::vector{0, 1} : std::vector{0}});
    CHECK(!source.has_optimizer());
    CHECK(contains(source.optimizer_problem(), "mp_rank_00/model_optim_rng.pt has no optimizer state, but "));
    CHECK(contains(source.optimizer_problem(), cat(path, is_distributed ? "distrib_optim.pt" : "model_optim_rng.pt")));
    REQUIRE(source.state());
    CHECK(source.state()->iteration == 40);
  }
  const ScratchFolder scratch;
  const ModelSource source = open_run(scratch, {.ranks_without = {0, 1}});
  CHECK(source.optimizer_problem().empty());
  CHECK(!source.state());
}

TEST_CASE("megatron: groups of parameters may be one, or in the other order") {
  for (const OptimizerFault& groups : {OptimizerFault{.groups = 1}, OptimizerFault{.is_swapped = true}}) {
    const ScratchFolder scratch;
    const ModelSource source = open_run(scratch, groups);
    CHECK(source.optimizer_problem().empty());
    for (const std::size_t i : {1, 15}) {
      const std::string name = i == 1 ? "embedding.positions.weight" : "final_norm.bias";
      CHECK(elements_of(source, "exp_avg." + name).front() == value_of(i, 0, StateRole::exp_avg));
      CHECK(elements_of(source, "exp_avg_sq." + name).front() == value_of(i, 0, StateRole::exp_avg_sq));
      CHECK(elements_of(source, "param." + name).front() == value_of(i, 0, StateRole::main));
    }
  }
}

TEST_CASE("megatron: an optimizer state that does not fit the model is named") {
  const std::pair<OptimizerFault, const char*> faults[] = {
      {{.groups = 3}, "has 3 groups of parameters, but mtl reads only 1 or 2"},
      {{.lacks_parameter = true, .is_swapped = true}, "has 9 parameters in group 0, but the model has 6"},
      {{.main_groups = 0}, "has no weights of group 0 in fp32_from_fp16_params"},
      {{.main_groups = 1}, "has no weights of group 1 in fp32_from_fp16_params"},
      {{.lacks_last_main = true}, "has no weights of group 1 in fp32_from_fp16_params"},
      {{.has_half_moments = true}, "of 'embedding.tokens.weight' is not an fp32 tensor with the parameter's shape"}};
  for (const auto& [fault, problem] : faults) {
    const ScratchFolder scratch;
    const ModelSource source = open_run(scratch, fault);
    CHECK(contains(source.optimizer_problem(), problem));
    CHECK(source.state()->optimizer_steps == 40);  // and not what some of the groups say
  }
}

TEST_CASE("megatron: variants of both ranks' files are refused for the right reason, or read") {
  struct Variant {
    const char* expected;
    std::vector<PickleEdit> edits;
  };
  const std::string all = "model_optim_rng.pt", one = "mp_rank_01/", steps = "J\x26\0\0\0"s;
  /// Puts another value in place of the one before a key.
  const auto before = [&](const char* key, const std::string& value, const std::string& file = "mp_rank") {
    return PickleEdit{file, key, pickle_text(key), "0" + value + pickle_text(key), true};
  };
  const auto both_steps = [&](const std::string& value) {
    return std::vector<PickleEdit>(2, {"mp_rank", "step", steps, value});
  };
  const auto version = [&](const std::string& file, const std::string& value) {
    return std::vector<PickleEdit>{{file, "checkpoint_version", "G@\x08\0\0\0\0\0\0"s, value}};
  };
  const auto samples = [&](const std::string& bytes) {
    return std::vector<PickleEdit>{{"mp_rank", "consumed_train_samples", "J\x40\1\0\0"s, "\x8a\x08" + bytes}};
  };
  const auto renamed = [&](const std::string& file, const std::string& from, const std::string& to) {
    return std::vector<PickleEdit>{{file, from, "", to}};
  };
  const std::string bias = "decoder.final_layernorm.bias";
  const Variant variants[] = {
      {"40 320 0 38 2 + skipped 16", {}},
      {"40 320 0 38 2 + skipped 16", both_steps("G@C\0\0\0\0\0\0"s)},
      {"40 320 0 38 2 + skipped 16", {{"mp_rank", "step", steps, "N"}}},
      {"40 320 0 38 2 + skipped 16", {{"mp_rank", "step", steps, "J\x25\0\0\0"s}}},
      {"40 320 0 37 3 + skipped 16",
       {{"mp_rank", "step", steps, "J\x24\0\0\0"s}, {"mp_rank", "step", steps, "J\x25\0\0\0"s}}},
      {"40 320 0 40 0 +", both_steps(pickle_text(""))},
      {"40 320 0 40 0 +", both_steps("G\xbf\xf0\0\0\0\0\0\0"s)},      // -1
      {"40 320 0 40 0 +", both_steps("GCA\xc3\x79\x37\xe0\x80\0"s)},  // 1e16
      {"40 320 0 40 0 +", both_steps("J\x28\0\0\0"s)},
      {"the optimizer has taken 41 steps in 40 iterations", both_steps("J\x29\0\0\0"s)},
      {"the optimizer has taken -1 steps in 40 iterations", both_steps("J\xff\xff\xff\xff")},
      {"has no entry for parameter 0", {{"mp_rank", "state", "J\0\0\0\0"s, "J\x63\0\0\0"s}}},
      {"has no entry for parameter 0", {{"mp_rank", "state", "J\0\0\0\0"s, "N"}}},
      {"has no entry for parameter 0", {before("param_groups", "N")}},
      {"is not an fp32 tensor with the parameter's shape", {before("exp_avg_sq", "N")}},
      {"is not an fp32 tensor with the parameter's shape", {{"mp_rank", "exp_avg", "J\6\0\0\0"s, "J\3\0\0\0"s}}},
      {"no state -", {before("opt_param_scheduler", "N")}},
      {"no args or no iteration to continue from", renamed("mp_rank", "iteration", "iterations")},
      {"the checkpoint's iteration is -1, but must be",
       {{"mp_rank", "iteration", "J\x28\0\0\0"s, "J\xff\xff\xff\xff"}}},
      {"40 9007199254740992 0 38 2 +", samples("\0\0\0\0\0\0\x20\0"s)},
      {"consumed_train_samples is 9007199254740993, but", samples("\1\0\0\0\0\0\x20\0"s)},
      {"40 320 7 38 2 +",
       {{"mp_rank", "bias_gelu_fusion", "", "consumed_valid_samples"},
        {"mp_rank", "consumed_valid_samples", "\x88", "J\7\0\0\0"s}}},
      {"remove the mp_rank_* folders that do not belong", {{"mp_rank", "tensor_model_parallel_size", "J\2", "J\1"}}},
      {"40 320 0 38 2 +", {{"mp_rank", "num_steps", "J\x30\1\0\0"s, "N"}}},
      {"40 320 0 38 2 +", {{"mp_rank", "num_steps", "J\x30\1\0\0"s, "J\x41\1\0\0"s}}},
      {"40 320 0 38 2 + skipped 16", renamed("mp_rank", "opt_param_scheduler", "lr_scheduler")},
      {"the file has no entry 'model'", renamed("mp_rank", "model", "modem")},
      {"the model is None instead of a dict", {before("optimizer", "N")}},
      {"40 320 0 38 2 +", renamed("mp_rank", "model", "model0")},
      {"or in the number of model chunks",
       {{all, "model", "", "model0"},
        {one, "opt_param_scheduler", pickle_text("opt_param_scheduler"),
         pickle_text("model1") + "}" + pickle_text("opt_param_scheduler"), true}}},
      {"40 320 0 38 2 +", version("mp_rank", "N")},
      {"40 320 0 38 2 +", version("mp_rank", "J\0\0\0\0"s)},
      {"checkpoint_version is -1, but mtl reads only 0 to 3", version("mp_rank", "J\xff\xff\xff\xff")},
      {"checkpoint_version is 4, but mtl reads only 0 to 3", version("mp_rank", "G@\x10\0\0\0\0\0\0"s)},
      {"checkpoint_version is a text, not a number", version("mp_rank", pickle_text("3"))},
      {"mp_rank_01/model_optim_rng.pt: the file differs from ", version(one, "G@\0\0\0\0\0\0\0"s)},
      {"'decoder.final_layernorm.weight' is stored twice", renamed("mp_rank", bias, "decoder.final_layernorm.weight")},
      {"q_layernorm.bias' is missing in the file of another rank",
       renamed(one, bias, "decoder.layers.0.self_attention.q_layernorm.bias")},
      {"'decoder.final_layernorm.bias' is stored by 1 of 2 tensor parallel ranks",
       renamed(one, bias, "x._extra_state")},
      {"tensor 'final.bias' is not a GPT parameter", renamed("mp_rank", bias, "final.bias")},
      {"2: ", {before("checkpoint_version", "N")}},
      {"the file is a checkpoint of nanoGPT", {{"mp_rank", "iteration", "", "model_args"}}},
  };
  for (const Variant& variant : variants) {
    CAPTURE(std::string(variant.expected));
    const ScratchFolder scratch;
    const std::string found = outcome([&] { return open_run(scratch, {}, variant.edits); });
    CAPTURE(found);
    CHECK(contains(found, variant.expected));
  }
}
