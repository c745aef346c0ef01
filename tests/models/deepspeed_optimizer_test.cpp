// DeepSpeed's optimizer states in layouts that the golden checkpoints lack: partitions with padding, and groups that
// only their shapes tell apart.
#include <doctest/doctest.h>

#include <array>

#include "deepspeed_fixtures.h"
#include "formats/torch_file.h"
#include "formats/torch_writer.h"
#include "tests/ckpt/file_edits.h"

using namespace mtl;
using namespace mtl::test;

namespace {

constexpr const char* kStates[] = {"main", "exp_avg", "exp_avg_sq"};

/// The flattened groups of a checkpoint by ZeRO without elastic_checkpoint: [state][group].
using FlatGroups = std::array<std::vector<std::vector<float>>, 3>;

FlatGroups flat_groups_of(const std::string& checkpoint, int ranks) {
  FlatGroups out;
  for (int rank = 0; rank < ranks; ++rank) {
    const TorchFile file(cat(checkpoint, "/bf16_zero_pp_rank_", rank, "_mp_rank_00_optim_states.pt"));
    const PickleValue state = *file.root().find("optimizer_state_dict");
    const PickleValue weights = *state.find("single_partition_of_fp32_groups");
    const PickleValue moments = *state.find("base_optimizer_state")->find("state");
    for (std::size_t g = 0; g < weights.size(); ++g) {
      for (std::size_t kind = 0; kind < out.size(); ++kind) {
        out[kind].resize(weights.size());
        const TorchTensor* part = file.tensor(kind == 0 ? weights.at(g) : *moments.value(g).find(kStates[kind]));
        REQUIRE(part != nullptr);
        std::vector<float> elements(part->count());
        read_elements(*part, 0, std::as_writable_bytes(std::span(elements)));
        out[kind][g].insert(out[kind][g].end(), elements.begin(), elements.end());
      }
    }
  }
  return out;
}

/// Writes a data-parallel rank's file as DeepSpeed 0.19 does (runtime/zero/stage_1_and_2.py): a group is padded to a
/// multiple of 2 elements for each rank, and cut. The weights are stored without the padding, the moments with it.
void write_partition(const std::string& path, const FlatGroups& groups, std::size_t rank, std::size_t ranks,
                     std::int64_t alignment_padding) {
  OutputFile out(path);
  TorchWriter writer(out, "partition");
  PickleWriter& pickle = writer.pickle();
  std::vector<std::vector<float>> data;
  std::vector<std::int64_t> paddings;
  const auto tensor = [&](std::size_t kind, std::size_t g, bool is_padded) {
    std::vector<float> whole = groups[kind][g];
    const std::size_t count = whole.size(), part = (count + 2 * ranks - 1) / (2 * ranks) * 2;
    const std::size_t begin = std::min(count, rank * part), end = std::min(count, begin + part);
    if (kind == 0) paddings.push_back(std::int64_t(part - (end - begin)));
    std::vector<float> elements(whole.begin() + begin, whole.begin() + end);
    if (is_padded) elements.resize(part);
    writer.tensor(StoredDType::f32, {std::ssize(elements)});
    data.push_back(std::move(elements));
  };
  const auto list = [&](std::size_t count, const auto& item) {
    pickle.begin_list();
    for (std::size_t i = 0; i < count; ++i) item(i);
    pickle.end_list();
  };
  const std::size_t count = groups[0].size();
  pickle.begin_dict(), pickle.text("optimizer_state_dict"), pickle.begin_dict();
  pickle.text("zero_stage"), pickle.integer(2);
  pickle.text("single_partition_of_fp32_groups"), list(count, [&](std::size_t g) { tensor(0, g, false); });
  pickle.text("group_paddings"), list(count, [&](std::size_t g) { pickle.integer(paddings[g]); });
  pickle.text("partition_count"), list(count, [&](std::size_t) { pickle.integer(std::int64_t(ranks)); });
  pickle.text("param_alignment_paddings");
  list(count, [&](std::size_t) { list(1, [&](std::size_t) { pickle.integer(alignment_padding); }); });
  pickle.text("base_optimizer_state"), pickle.begin_dict();
  pickle.text("state"), pickle.begin_dict();
  for (std::size_t g = 0; g < count; ++g) {
    pickle.integer(std::int64_t(g)), pickle.begin_dict(), pickle.text("step"), pickle.integer(1);
    for (std::size_t kind : {1, 2}) pickle.text(kStates[kind]), tensor(kind, g, true);
    pickle.end_dict();
  }
  pickle.end_dict(), pickle.text("param_groups");
  list(count, [&](std::size_t g) {
    pickle.begin_dict(), pickle.text("params"), list(1, [&](std::size_t) { pickle.integer(std::int64_t(g)); });
    pickle.end_dict();
  });
  pickle.end_dict(), pickle.end_dict(), pickle.end_dict();
  for (const std::vector<float>& elements : data) writer.write_data(std::as_bytes(std::span(elements)));
  writer.finish();
  out.close();
}

}  // namespace

TEST_CASE("deepspeed: ZeRO's partitions with padding are read, which weights lack and moments have") {
  const ScratchFolder scratch;
  const FlatGroups groups = flat_groups_of(kDeepSpeed + "neox_sequential/global_step2", 2);
  for (const std::int64_t alignment_padding : {0, 4}) {
    const std::string path = copy_deepspeed_case(scratch, "neox_sequential");
    remove_matching(path, "_optim_states.pt");
    for (int rank = 0; rank < 3; ++rank)
      write_partition(cat(path, "/bf16_zero_pp_rank_", rank, "_mp_rank_00_optim_states.pt"), groups, rank, 3,
                      alignment_padding);
    const ModelSource source = open_deepspeed_case(path);
    CHECK(source.has_optimizer() == (alignment_padding == 0));
    if (alignment_padding == 0) {
      CHECK(source.optimizer_problem() == "");
      CHECK(source.state()->skipped_iterations == 1);  // of 2
      for (const char* kind : kStates)
        check_kind(source, std::string_view(kind) == "main" ? "param" : kind,
                   open_deepspeed_case(cat(kDeepSpeed, "neox_sequential/expected/", kind)));
    } else {
      CHECK(contains(source.optimizer_problem(), "has padding between parameters (param_alignment_paddings)"));
    }
  }
}

TEST_CASE("deepspeed: moments of another shape than the parameter's are refused") {
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "megatron_llama");
  // The parameters 0 and 3 are of shapes (16, 16) and (32, 16).
  edit_pickle(path + "/mp_rank_00_model_states.pt", [](const std::string& pickle) {
    return replaced(pickle, std::string("(K\0K\1K\2K\3", 9), std::string("(K\3K\1K\2K\0", 9));
  });
  const ModelSource source = open_deepspeed_case(path);
  CHECK(!source.has_optimizer());
  CHECK(contains(source.optimizer_problem(), "is not an fp32 tensor with the parameter's shape"));
}

TEST_CASE("deepspeed: a flattened group of vectors may come before that of matrices") {
  using namespace std::string_literals;
  const ScratchFolder scratch;
  const std::string path = copy_deepspeed_case(scratch, "neox_gated");
  for (const char* rank : {"/mp_rank_00", "/mp_rank_01"}) {
    edit_pickle(cat(path, rank, "_model_states.pt"), [](std::string pickle) {
      const std::string tensor = "h\5((h\6h\xc7X";
      const std::size_t flat = pickle.find("fp32_groups_flat"), matrices = pickle.find(tensor, flat),
                        vectors = pickle.find(tensor, matrices + 1), end = pickle.find("eX\t\0\0\0clip_grad"s, vectors);
      REQUIRE(end != std::string::npos);
      std::rotate(pickle.begin() + matrices, pickle.begin() + vectors, pickle.begin() + end);
      pickle = replaced(pickle, "K\0au}r"s, "K\1au}r"s);  // params of the first group
      return replaced(pickle, "K\1aueu"s, "K\0aueu"s);
    });
  }
  const ModelSource source = open_deepspeed_case(path);
  CHECK(source.optimizer_problem() == "");
  REQUIRE(source.has_optimizer());
  for (const char* kind : kStates)
    check_kind(source, std::string_view(kind) == "main" ? "param" : kind,
               open_deepspeed_case(cat(kDeepSpeed, "neox_gated/expected/", kind)));
}

TEST_CASE("deepspeed: groups of matrices and vectors with equal counts keep their order") {
  // LayerNorms with biases, linears without, a tied output layer: six matrices and six vectors.
  struct Entry {
    const char *name, *canonical;
    std::vector<std::int64_t> shape;
  };
  const Entry entries[] = {
      {"embedding.word_embeddings.weight", "embedding.tokens.weight", {12, 8}},
      {"embedding.position_embeddings.weight", "embedding.positions.weight", {4, 8}},
      {"encoder.layers.0.self_attention.query_key_value.weight", "layers.0.attention.qkv.weight", {24, 8}},
      {"encoder.layers.0.self_attention.dense.weight", "layers.0.attention.out.weight", {8, 8}},
      {"encoder.layers.0.mlp.dense_h_to_4h.weight", "layers.0.mlp.up.weight", {32, 8}},
      {"encoder.layers.0.mlp.dense_4h_to_h.weight", "layers.0.mlp.down.weight", {8, 32}},
      {"encoder.layers.0.input_layernorm.weight", "layers.0.norm1.weight", {8}},
      {"encoder.layers.0.input_layernorm.bias", "layers.0.norm1.bias", {8}},
      {"encoder.layers.0.post_attention_layernorm.weight", "layers.0.norm2.weight", {8}},
      {"encoder.layers.0.post_attention_layernorm.bias", "layers.0.norm2.bias", {8}},
      {"encoder.final_layernorm.weight", "final_norm.weight", {8}},
      {"encoder.final_layernorm.bias", "final_norm.bias", {8}}};
  const ScratchFolder scratch;
  OutputFile out(scratch / "mp_rank_00_model_states.pt");
  TorchWriter writer(out, "states");
  PickleWriter& pickle = writer.pickle();
  std::vector<std::vector<float>> data;
  const auto tensor = [&](const Entry& entry, float value) {
    writer.tensor(StoredDType::f32, entry.shape);
    data.emplace_back(whole_slice(entry.shape).count(), value);
  };
  pickle.begin_dict(), pickle.text("iteration"), pickle.integer(2);
  pickle.text("module"), pickle.begin_dict();
  for (const Entry& entry : entries) pickle.text(cat("language_model.", entry.name)), tensor(entry, 1);
  pickle.end_dict();
  pickle.text("optimizer"), pickle.begin_dict(), pickle.text("state"), pickle.begin_dict();
  for (int i = 0; i < 12; ++i) {
    pickle.integer(i), pickle.begin_dict();
    pickle.text("exp_avg"), tensor(entries[i], float(i)), pickle.text("exp_avg_sq"), tensor(entries[i], float(2 * i));
    pickle.end_dict();
  }
  pickle.end_dict(), pickle.text("param_groups"), pickle.begin_list();
  for (int first : {0, 6}) {
    pickle.begin_dict(), pickle.text("params"), pickle.begin_list();
    for (int i = first; i < first + 6; ++i) pickle.integer(i);
    pickle.end_list(), pickle.end_dict();
  }
  pickle.end_list(), pickle.end_dict(), pickle.end_dict();
  for (const std::vector<float>& elements : data) writer.write_data(std::as_bytes(std::span(elements)));
  writer.finish();
  out.close();
  const ModelSource source = open_deepspeed_case(scratch.path(), 2);
  CHECK(source.optimizer_problem() == "");
  REQUIRE(source.has_optimizer());
  for (int i = 0; i < 12; ++i) {
    Slice first = whole_slice(source.find_tensor(cat("param.", entries[i].canonical))->shape);
    first.end = 1;
    CHECK(elements_of(source, cat("exp_avg.", entries[i].canonical), first) == std::vector<float>{float(i)});
    CHECK(elements_of(source, cat("exp_avg_sq.", entries[i].canonical), first) == std::vector<float>{float(2 * i)});
  }
}
