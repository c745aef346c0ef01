// Distributed checkpoints of Megatron-LM and torchtitan: every golden case equals its model, bit for bit, as whole
// tensors and as slices, weights and moments.
#include <doctest/doctest.h>

#include "base/json.h"
#include "base/usage_error.h"
#include "ckpt/open_model.h"
#include "formats/dcp_folder.h"
#include "formats/dcp_writer.h"
#include "formats/safetensors.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kDistCases = "golden/dist_ckpt/";

/// Makes a Hugging Face folder in `folder` from a model's config.json and the tensors PREFIX.NAME of a file, which it
/// calls NAME.
void make_hf_folder(const std::string& folder, const std::string& model, const std::string& file,
                    const std::string& prefix) {
  fs::create_directories(folder);
  write_text(folder + "/config.json", read_file(cat(kDistCases, "models/", model, "/config.json")));
  const SafetensorsFile from(cat(kDistCases, "models/", model, "/", file));
  std::vector<StoredTensor> plan;
  std::vector<std::span<const std::byte>> data;
  for (const StoredTensor& tensor : from.tensors()) {
    if (!starts_with(tensor.name, prefix)) continue;
    plan.push_back(tensor);
    plan.back().name = tensor.name.substr(prefix.size());
    data.push_back(from.data(tensor));
  }
  OutputFile out(folder + "/model.safetensors");
  SafetensorsWriter writer(out, plan);
  for (std::span<const std::byte> elements : data) writer.write(elements);
  writer.finish();
  out.close();
}

/// The models in golden/dist_ckpt/models as ModelSources: weights in fp32 and bf16, and moments as if they were
/// weights.
class Expected {
 public:
  const ModelSource& weights(const std::string& model, StoredDType dtype) {
    return open(model, dtype == StoredDType::bf16 ? "model_bf16.safetensors" : "model_fp32.safetensors", "");
  }
  const ModelSource& moments(const std::string& model, const std::string& kind) {
    return open(model, "optimizer.safetensors", kind + ".");
  }

 private:
  const ModelSource& open(const std::string& model, const std::string& file, const std::string& prefix) {
    const std::string name = cat(model, "_", file, prefix);
    const auto found = models_.find(name);
    if (found != models_.end()) return found->second;
    make_hf_folder(scratch_ / name, model, file, prefix);
    return models_.emplace(name, open_quietly(scratch_ / name)).first->second;
  }

  ScratchFolder scratch_;
  std::map<std::string, ModelSource> models_;
};

ModelSource open_dist_case(const std::string& path, const ModelSupplement& given) {
  Console console = quiet_console();
  return open_model(path, console, given);
}

/// Returns what opens a case: the vocabulary without padding, or the configuration.
ModelSupplement supplement_of(const Json& entry) {
  ModelSupplement given;
  if (starts_with(entry.at("dir").as_string(), "titan")) {
    given.hf_config = cat(kDistCases, "models/", entry.at("model").as_string());
  } else {
    given.vocab_size = entry.at("vocab").as_int();
  }
  return given;
}

/// Compares the tensors KIND.NAME with the parameters of `expected`, also in slices along every axis.
void check_tensors(const ModelSource& source, const std::string& kind, const ModelSource& expected) {
  for (const SavedTensor& tensor : expected.tensors()) {
    const std::string name = cat(kind, tensor.name.substr(tensor.name.find('.')));
    CAPTURE(name);
    const Slice whole = whole_slice(tensor.shape);
    CHECK(same_bits(elements_of(source, name, whole), elements_of(expected, tensor.name, whole)));
    for (std::size_t axis = 0; axis < tensor.shape.size(); ++axis) {
      Slice slice = whole;
      slice.offset[axis] = tensor.shape[axis] / 3;
      slice.size[axis] = std::max<std::int64_t>(1, tensor.shape[axis] / 2);
      slice.end = whole_slice(slice.size).count();
      CHECK(same_bits(elements_of(source, name, slice), elements_of(expected, tensor.name, slice)));
      slice.begin = slice.count() / 3, slice.end -= slice.count() > 2;
      CHECK(same_bits(elements_of(source, name, slice), elements_of(expected, tensor.name, slice)));
    }
  }
}

/// Writes an archive of torch.save() again, with a text in its pickle replaced.
void replace_in_pickle(const std::string& path, std::string_view from, std::string_view to) {
  edit_pickle(path, [&](const std::string& pickle) { return replaced(pickle, from, to); });
}

std::string copy_dist_case(const ScratchFolder& scratch, const std::string& from) {
  const std::string to = scratch / "copy";
  fs::remove_all(to);
  fs::copy(kDistCases + from, to, fs::copy_options::recursive);
  return to;
}

}  // namespace

TEST_CASE("dcp: the golden cases equal their models bit for bit") {
  Expected expected;
  int cases = 0;
  for (const Json& entry : golden_lines(kDistCases + "cases.jsonl")) {
    const std::string dir = entry.at("dir").as_string(), model = entry.at("model").as_string();
    CAPTURE(dir);
    ++cases;
    const ModelSource source = open_dist_case(kDistCases + dir, supplement_of(entry));
    const bool is_titan = starts_with(dir, "titan");
    CHECK(source.kind() == (is_titan ? "PyTorch distributed checkpoint" : "distributed Megatron-LM checkpoint"));
    CHECK(ends_with(source.folder(), entry.at("folder").as_string()));
    source.verify();
    check_tensors(source, "param", expected.weights(model, source.tensors()[0].dtype));
    CAPTURE(source.optimizer_problem());
    CHECK(source.optimizer_problem().empty());
    REQUIRE(source.has_optimizer() == !entry.at("optimizer").is_null());
    if (!source.has_optimizer()) continue;
    check_tensors(source, "exp_avg", expected.moments(model, "exp_avg"));
    check_tensors(source, "exp_avg_sq", expected.moments(model, "exp_avg_sq"));
    REQUIRE(source.state());
    const std::int64_t iteration = entry.at("iteration").as_int();
    CHECK(source.state()->iteration == iteration);
    CHECK(source.state()->optimizer_steps == iteration);
    CHECK(source.state()->consumed_samples == (is_titan ? 0 : 8 * iteration));
    CHECK(source.state()->skipped_iterations == 0);
  }
  CHECK(cases == 7);
}

TEST_CASE("dcp: unusual folders that are read, and code in a folder that is not") {
  Expected expected;
  int accepted = 0, refused = 0;
  for (const char* name :
       {"plain_compact", "protocol_2", "protocol_5", "uneven_grid", "view_in_archive", "reordered_gaps",
        "index_hint_wrong", "unread_evil", "megatron_plain", "megatron_common_pt"}) {
    CAPTURE(name);
    ModelSupplement given;
    if (!starts_with(name, "megatron")) given.hf_config = kDistCases + "models/tiny/config.json";
    if (starts_with(name, "megatron")) given.vocab_size = 13;
    const ModelSource source = open_dist_case(cat(kDistCases, "odd/", name), given);
    source.verify();
    check_tensors(source, "param", expected.weights("tiny", StoredDType::f32));
    ++accepted;
  }
  for (const char* name :
       {"metadata_os_system", "archive_os_system", "megatron_common_os_system", "stride_zero_bomb"}) {
    CAPTURE(name);
    ModelSupplement given;
    if (!starts_with(name, "megatron")) given.hf_config = kDistCases + "models/tiny";
    const std::string message =
        error_of([&] { open_dist_case(cat(kDistCases, "odd/", name), given).verify(); }, Exit::bad_data);
    const bool is_bomb = std::string_view(name) == "stride_zero_bomb";
    CHECK(contains(message, is_bomb ? "has only" : "posix.system"));
    CHECK(contains(message, is_bomb ? "damaged" : "load the checkpoint with the program that wrote it"));
    ++refused;
  }
  CHECK(accepted == 10);
  CHECK(refused == 4);
}

TEST_CASE("dcp: folders equal the same model in the torch format, bit for bit") {
  for (const char* name :
       {"llama_fully_sharded_bucket_space_dp2_nl1_hs8_bk390", "llama_dp_zero_gather_scatter_pp2_vp2_nl4_hs8"}) {
    CAPTURE(name);
    const ModelSource source = open_dist_case(cat(kDistCases, "made/", name), {.vocab_size = 45});
    const ModelSource plain = open_dist_case(cat(kDistCases, "made/", name, "_plain"), {.vocab_size = 45});
    source.verify();
    CHECK(source.optimizer_problem().empty());
    REQUIRE(source.tensors().size() == plain.tensors().size());
    for (const char* kind : {"param", "exp_avg", "exp_avg_sq"}) {
      REQUIRE(plain.find_tensor(cat(kind, ".final_norm.weight")) != nullptr);
    }
    for (const SavedTensor& tensor : plain.tensors()) {
      CAPTURE(tensor.name);
      const Slice whole = whole_slice(tensor.shape);
      CHECK(same_bits(elements_of(source, tensor.name, whole), elements_of(plain, tensor.name, whole)));
    }
    REQUIRE(source.state());
    CHECK(source.state()->iteration == 30);
    CHECK(source.state()->optimizer_steps == 30);
  }
}

TEST_CASE("dcp: variants of a folder are refused for the right reason, or read") {
  const ScratchFolder scratch;
  Expected expected;
  int refused = 0, accepted = 0;
  for (const Json& entry : golden_lines(kDistCases + "odd.jsonl")) {
    CAPTURE(entry.at("name").as_string());
    const std::string base = entry.at("base").as_string();
    const std::string folder = copy_dist_case(scratch, "odd/" + base);
    apply_edits(folder, entry.at("edits"));
    ModelSupplement given;
    if (starts_with(base, "megatron")) given.vocab_size = 13;
    if (!starts_with(base, "megatron")) given.hf_config = kDistCases + "models/tiny";
    if (entry.at("message").is_null()) {
      const ModelSource source = open_dist_case(folder, given);
      source.verify();
      check_tensors(source, "param", expected.weights("tiny", StoredDType::f32));
      ++accepted;
    } else {
      CHECK(contains(error_of([&] { open_dist_case(folder, given).verify(); }, Exit::bad_data),
                     entry.at("message").as_string()));
      ++refused;
    }
  }
  CHECK(accepted == 1);
  CHECK(refused == 42);
}

TEST_CASE("dcp: reading a slice opens only what it needs") {
  const ModelSource source = open_dist_case(kDistCases + "tag_llama_tp2", {.vocab_size = 45});
  std::vector<std::byte> out(16 * 4);
  Slice slice = whole_slice({45, 16});
  slice.begin = 16 * 40, slice.end = slice.begin + 16;
  source.read("param.embedding.tokens.weight", slice, out);
  CHECK(source.bytes_read() == out.size());
}

TEST_CASE("dcp: a damaged archive is refused, whether its tensor is read at once, in parts or not at all") {
  const ScratchFolder scratch;
  const ModelSupplement given = {.hf_config = kDistCases + "models/tiny"};
  const std::string key = "model.layers.0.attention.wq.weight", name = "param.layers.0.attention.qkv.weight";
  const std::string folder = copy_dist_case(scratch, "titan_fp32") + "/step-25";
  for (const bool is_last : {false, true}) {
    const std::string damaged = scratch / (is_last ? "last" : "first");
    fs::copy(folder, damaged);
    const DcpFolder dcp(damaged);
    const DcpTensor* tensor = dcp.find(key);
    REQUIRE(tensor != nullptr);
    const DcpBox& box = tensor->boxes.at(0);
    const DcpFolder::OpenBox open = dcp.open_box(key, *tensor, box);
    const std::span<const std::byte> data = open.tensor->data;
    std::string text = read_file(dcp.file_of(box.range));
    const std::string_view stored(reinterpret_cast<const char*>(data.data()), data.size());
    const std::size_t at = text.find(stored, box.range.offset);
    REQUIRE(at != std::string::npos);
    text[is_last ? at + data.size() - 1 : at] ^= 1;
    write_text(dcp.file_of(box.range), text);

    const auto expect_refused = [&](const auto& work) {
      const std::string error = error_of(work, Exit::bad_data);
      CHECK(contains(error, cat("the archive of '", key, "' at offset ", box.range.offset)));
      CHECK(contains(error, "CRC-32"));
    };
    const ModelSource unread = open_dist_case(damaged, given);
    expect_refused([&] { unread.verify(); });
    expect_refused([&] { unread.verify(); });
    const ModelSource whole = open_dist_case(damaged, given);
    expect_refused([&] { elements_of(whole, name, whole_slice(whole.find_tensor(name)->shape)); });
    expect_refused([&] { whole.verify(); });
    const ModelSource parts = open_dist_case(damaged, given);
    expect_refused([&] {
      Slice part = whole_slice(parts.find_tensor(name)->shape);
      for (const std::int64_t end = part.end; part.begin < end; part.begin = part.end) {
        part.end = std::min(end, part.begin + 5);
        elements_of(parts, name, part);
      }
      parts.verify();
    });
    const ModelSource beginning = open_dist_case(damaged, given);
    Slice part = whole_slice(beginning.find_tensor(name)->shape);
    part.end = 1;
    CHECK_NOTHROW(elements_of(beginning, name, part));
    expect_refused([&] { beginning.verify(); });
  }
}

TEST_CASE("dcp: a Megatron-LM folder's tracker selects the iteration") {
  const ScratchFolder scratch;
  const std::string folder = copy_dist_case(scratch, "tag_llama_tp2");
  fs::copy(kDistCases + "core012_llama_dp3/iter_0000030", folder + "/iter_0000040", fs::copy_options::recursive);
  Console console = quiet_console();
  CHECK(find_model(folder, console) == folder + "/iter_0000030");
  write_text(folder + "/latest_checkpointed_iteration.txt", "40");
  CHECK(find_model(folder, console) == folder + "/iter_0000040");
  fs::remove(folder + "/latest_checkpointed_iteration.txt");
  CHECK(find_model(folder, console) == folder + "/iter_0000040");
  fs::remove(folder + "/iter_0000030/.metadata");
  CHECK(contains(error_of([&] { open_quietly(folder + "/iter_0000030"); }, Exit::bad_data),
                 ".metadata: the file is missing"));
}

TEST_CASE("dcp: backends other than torch_dist are refused by name") {
  const ScratchFolder scratch;
  const std::string folder = copy_dist_case(scratch, "odd/megatron_plain");
  for (const auto& [json, named] :
       {std::pair(R"({"sharded_backend": "zarr", "sharded_backend_version": 1})", "zarr"),
        std::pair(R"({"sharded_backend": "torch_dist", "sharded_backend_version": 2})", "2"),
        std::pair(R"({"sharded_backend": "torch_dist2", "sharded_backend_version": 1})", "torch_dist2"),
        std::pair(R"({"sharded_backend": "torch_dist", "sharded_backend_version": 10})", "10"),
        std::pair(R"({"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": null})", "null"),
        std::pair(R"({"common_backend": "torch"})", "(none)"), std::pair("[]", "(none)")}) {
    CAPTURE(json);
    write_text(folder + "/metadata.json", json);
    CHECK(contains(error_of([&] { open_quietly(folder); }, Exit::bad_data), cat(" is ", named, ", but")));
  }
}

TEST_CASE("dcp: other versions of the files' contents are refused by name") {
  const ScratchFolder scratch;
  std::string folder = copy_dist_case(scratch, "core016_gpt_tp1/iter_0000030");
  replace_in_pickle(folder + "/common.pt", "checkpoint_version", "checkpoint_versiom");  // states none
  CHECK(open_quietly(folder).has_optimizer());
  folder = copy_dist_case(scratch, "core016_gpt_tp1/iter_0000030");
  replace_in_pickle(folder + "/common.pt", std::string_view("G@\x08\0\0\0\0\0\0", 9),
                    std::string_view("G@\x12\0\0\0\0\0\0", 9));
  CHECK(contains(error_of([&] { open_quietly(folder); }, Exit::bad_data),
                 "common.pt: checkpoint_version is 4.5, but mtl reads only 3 in torch_dist checkpoints"));
  folder = copy_dist_case(scratch, "titan_fp32") + "/step-25";
  write_text(folder + "/.metadata", replaced(read_file(folder + "/.metadata"), "1.0.0", "1.1.0"));
  CHECK(contains(error_of([&] { open_dist_case(folder, {.num_attention_heads = 2}); }, Exit::bad_data),
                 ".metadata: the index has version 1.1.0, but mtl reads only 1.0.0"));
}

TEST_CASE("dcp: of an optimizer state in an unknown layout, only the weights are read") {
  const ScratchFolder scratch;
  for (const char* key : {"distrib_optim_sharding_type", "param_state_sharding_type"}) {
    CAPTURE(key);
    const std::string folder = copy_dist_case(scratch, "core016_gpt_tp1/iter_0000030");
    // Without the other key's value. The two share a text in the pickle.
    const bool is_metadata = starts_with(key, "distrib");
    replace_in_pickle(folder + "/common.pt", is_metadata ? "param_state_sharding_type" : "distrib_optim_sharding_type",
                      is_metadata ? "param_state_sharding_nope" : "distrib_optim_sharding_nope");
    CHECK(open_quietly(folder).optimizer_problem().empty());
    replace_in_pickle(folder + "/common.pt", "dp_zero_gather_scatter", "dp_zero_gather_scattex");
    const ModelSource source = open_quietly(folder);
    CHECK(!source.has_optimizer());
    CHECK(contains(source.optimizer_problem(), cat("common.pt: the optimizer state is in the layout ",
                                                   "dp_zero_gather_scattex (", key, "), but mtl reads only ")));
  }
}

TEST_CASE("dcp: an optimizer state that does not fit the model is named, and only the weights are read") {
  const std::string bucket = "made/llama_fully_sharded_bucket_space_dp2_nl1_hs8_bk390/iter_0000030";
  const std::string object = "made/llama_dp_zero_gather_scatter_pp2_vp2_nl4_hs8/iter_0000030";
  const std::string local("X\x05\0\0\0local", 10), engine("X\x12\0\0\0transformer_engine", 23);
  struct Case {
    std::string folder, file, from, to;
    const char* problem;
  };
  const Case cases[] = {
      {bucket, ".metadata", "per_bucket_numel_unpadded", "per_bucket_numel_unpaddex",
       "but the model's bucket is F32 with shape"},
      {bucket, "common.pt", local, engine, "has a chunk that belongs to several parameters"},
      {object, "common.pt", local, engine, "has no contiguous F32 tensor 'exp_avg' with the "},
      {"tag_llama_tp2/iter_0000030", ".metadata", "optimizer.state.param.decoder.final_layernorm.weight",
       "optimizer.state.parax.decoder.final_layernorm.weight", "the optimizer has main weights for "},
  };
  const ScratchFolder scratch;
  for (const Case& one : cases) {
    CAPTURE(one.problem);
    const std::string folder = copy_dist_case(scratch, one.folder), path = cat(folder, "/", one.file);
    CHECK(open_dist_case(folder, {.vocab_size = 45}).optimizer_problem().empty());
    if (one.file == "common.pt") {
      replace_in_pickle(path, one.from, one.to);
    } else {
      std::string text = read_file(path);
      REQUIRE(text.find(one.from) != std::string::npos);
      for (std::size_t at = 0; (at = text.find(one.from, at)) != std::string::npos;)
        text.replace(at, one.from.size(), one.to);
      write_text(path, text);
    }
    const ModelSource source = open_dist_case(folder, {.vocab_size = 45});
    CAPTURE(source.optimizer_problem());
    CHECK(contains(source.optimizer_problem(), one.problem));
    CHECK(!source.has_optimizer());
  }
}

TEST_CASE("dcp: of a folder of steps, the largest is read") {
  const ScratchFolder scratch;
  const std::string folder = copy_dist_case(scratch, "titan_fp32");
  for (const char* name : {"step-9", "step-100", "step-x", "step-1000"})
    fs::copy(kDistCases + "titan_bf16/step-25", cat(folder, "/", name), fs::copy_options::recursive);
  fs::remove_all(folder + "/step-1000");
  fs::create_directory(folder + "/step-1000");  // without a checkpoint
  Console console = quiet_console();
  CHECK(find_model(folder, console) == folder + "/step-100");
}

TEST_CASE("dcp: torchtitan's configuration comes from config.json, a flag, or shapes and defaults") {
  const ScratchFolder scratch;
  const std::string folder = copy_dist_case(scratch, "titan_fp32") + "/step-25";
  const ModelSource given = open_dist_case(folder, {.hf_config = kDistCases + "models/tiny/config.json"});
  const ModelSource assumed = open_dist_case(folder, {.num_attention_heads = 2});
  GptConfig config = assumed.config();
  CHECK(config.rotary.base == 500000);
  CHECK(config.max_positions == 131072);
  CHECK(config.norm_eps == 1e-5);
  CHECK(assumed.has_padded_vocabulary());
  config.rotary.base = given.config().rotary.base;
  config.max_positions = given.config().max_positions;
  config.norm_eps = given.config().norm_eps;
  config.init_std = given.config().init_std;
  CHECK(config == given.config());
  CHECK(contains(error_of([&] { open_quietly(folder); }, Exit::usage), "is required"));
  CHECK(
      contains(error_of([&] { open_dist_case(folder, {.num_attention_heads = 3}); }, Exit::usage), "does not divide"));
  fs::copy(kDistCases + "models/tiny/config.json", folder + "/config.json");
  CHECK(open_quietly(folder).config() == given.config());
  CHECK(contains(error_of([&] { open_dist_case(folder, {.hf_config = kDistCases + "models/llama"}); }, Exit::bad_data),
                 "has shape"));
  CHECK(contains(error_of([&] { open_dist_case(folder, {.hf_config = kDistCases + "models/gpt"}); }, Exit::bad_data),
                 "not that of a Llama model"));
  CHECK(contains(error_of([&] { open_dist_case(kDistCases + "tag_gpt_pp2", {.hf_config = "x"}); }, Exit::usage),
                 "--hf-config x: has no use"));
}

TEST_CASE("dcp: without args, --hf-config describes Megatron-LM's model") {
  const ScratchFolder scratch;
  const std::string golden = kDistCases + "core012_llama_dp3", model = kDistCases + "models/llama";
  const std::string path = copy_dist_case(scratch, "core012_llama_dp3") + "/iter_0000030";
  CHECK(contains(error_of([&] { open_dist_case(golden, {.hf_config = model}); }, Exit::usage),
                 "has no use for the model"));
  const std::string args("\x04\0\0\0args", 8), other("\x04\0\0\0argz", 8);
  replace_in_pickle(path + "/common.pt", args, other);
  const ModelSource source = open_dist_case(path, {.hf_config = model});
  CHECK(source.config() == open_dist_case(golden, {.vocab_size = source.config().vocab_size}).config());
  CHECK(!source.has_padded_vocabulary());
  CHECK(source.dropout().has_value());
  check_tensors(source, "param", Expected().weights("llama", StoredDType::f32));
  CHECK(contains(source.optimizer_problem(), "no args or no iteration to continue from"));
  const std::string gpt_path = scratch / "gpt";  // can be read without a description, too
  fs::copy(kDistCases + "core016_gpt_tp1", gpt_path, fs::copy_options::recursive);
  replace_in_pickle(gpt_path + "/iter_0000030/common.pt", args, other);
  CHECK(open_dist_case(gpt_path, {.hf_config = kDistCases + "models/gpt"}).config() ==
        Expected().weights("gpt", StoredDType::f32).config());
  const std::string error = error_of([&] { open_dist_case(path, {.num_attention_heads = 4}); }, Exit::bad_data);
  CHECK(contains(error, "has no args, as those of Megatron-Bridge and NeMo have none; describe the model"));
  write_text(path + "/run_config.yaml", "");
  CHECK(contains(error_of([&] { open_dist_case(path, {}); }, Exit::bad_data),
                 cat("described in ", path, "/run_config.yaml")));
  write_text(scratch / "config.json",
             replaced(read_file(model + "/config.json"), "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"));
  CHECK(contains(error_of([&] { open_dist_case(path, {.hf_config = scratch / "config.json"}); }, Exit::bad_data),
                 "the model has 3 layers"));
  write_text(scratch / "config.json",
             replaced(read_file(model + "/config.json"), "\"vocab_size\": 45", "\"vocab_size\": 4500"));
  CHECK(contains(error_of([&] { open_dist_case(path, {.hf_config = scratch / "config.json"}); }, Exit::bad_data),
                 "and 4500 tokens, but "));
  fs::remove(path + "/metadata.json");
  CHECK(contains(error_of([&] { open_dist_case(path, {}); }, Exit::bad_data), "metadata.json is missing"));
  const std::string gpt = kDistCases + "core016_gpt_tp1",
                    bare = copy_dist_case(scratch, "core016_gpt_tp1/iter_0000030");
  const GptConfig expected = open_dist_case(gpt, {.vocab_size = 42}).config();
  replace_in_pickle(bare + "/common.pt", args, other);
  CHECK(open_dist_case(bare, {.num_attention_heads = expected.num_heads}).has_padded_vocabulary());
  const ModelSource assumed = open_dist_case(bare, {.vocab_size = 42, .num_attention_heads = expected.num_heads});
  CHECK(!assumed.has_padded_vocabulary());
  CHECK(assumed.config().head_dim == expected.head_dim);
  CHECK(assumed.config().position_embedding == PositionEmbedding::learned);
}

TEST_CASE("dcp: torchtitan's output layer may be stored with tied embeddings if it equals the token embedding") {
  const ScratchFolder scratch;
  const std::string tied = scratch / "config.json", folder = scratch / "step-25";
  write_text(tied, replaced(read_file(kDistCases + "models/llama/config.json"), "\"tie_word_embeddings\": false",
                            "\"tie_word_embeddings\": true"));
  const DcpFolder golden(kDistCases + "titan_bf16/step-25");
  // Writes the golden tensors again, but the token embedding as the output layer's, in two boxes.
  const auto write = [&](bool is_equal) {
    fs::remove_all(folder);
    make_directories(folder);
    DcpWriter writer(folder);
    std::vector<std::byte> elements, embedding;
    for (const auto& [key, tensor] : golden.tensors()) {
      if (ends_with(key, "output.weight") || starts_with(key, "optimizer.")) continue;
      const std::size_t number = writer.add_tensor(key, tensor.dtype, tensor.shape);
      for (const DcpBox& box : tensor.boxes) {
        const DcpFolder::OpenBox open = golden.open_box(key, tensor, box);
        elements.resize(open.tensor->count() * bits_of(tensor.dtype) / 8);
        read_elements(*open.tensor, 0, elements);
        writer.write_box(number, box.slice.offset, box.slice.size, elements);
        if (ends_with(key, "tok_embeddings.weight"))
          embedding.insert(embedding.end(), elements.begin(), elements.end());
      }
    }
    if (!is_equal) embedding.back() ^= std::byte{1};
    const std::span<const std::byte> rows = embedding;
    const std::size_t output = writer.add_tensor("output.weight", StoredDType::bf16, {45, 16});
    writer.write_box(output, {0, 0}, {20, 16}, rows.first(20 * 16 * 2));
    writer.write_box(output, {20, 0}, {25, 16}, rows.subspan(20 * 16 * 2));
    writer.finish();
    return open_dist_case(folder, {.hf_config = tied});
  };
  const ModelSource source = write(true);
  CHECK(source.config().tied_embeddings);
  CHECK(source.find_tensor("param.output.weight") == nullptr);
  CHECK(same_bits(elements_of(source, "param.embedding.tokens.weight", whole_slice({45, 16})),
                  elements_of(open_dist_case(kDistCases + "titan_bf16", {.hf_config = kDistCases + "models/llama"}),
                              "param.embedding.tokens.weight", whole_slice({45, 16}))));
  CHECK(contains(error_of([&] { write(false); }, Exit::bad_data),
                 "'output.weight' differs from the token embedding, but config.json sets tie_word_embeddings; set it"));
}

TEST_CASE("dcp: a file that is truncated while a tensor in it is open is an error, not zeros") {
  const ScratchFolder scratch;
  const std::string folder = copy_dist_case(scratch, "titan_fp32") + "/step-25", path = folder + "/__0_0.distcp";
  const ModelSource source = open_dist_case(folder, {.hf_config = kDistCases + "models/tiny"});
  const std::string bytes = read_file(path);
  std::string last;    // the tensor whose first elements are the last in the file
  std::size_t at = 0;  // in the file
  for (const SavedTensor& tensor : source.tensors()) {
    const std::vector<float> elements = elements_of(source, tensor.name, whole_slice(tensor.shape));
    const std::size_t found = bytes.rfind(std::string(reinterpret_cast<const char*>(elements.data()), 16));
    if (found != std::string::npos && found > at) last = tensor.name, at = found;
  }
  REQUIRE(at > 0);
  Slice slice = whole_slice(source.find_tensor(last)->shape);
  slice.end = 1;
  elements_of(source, last, slice);
  fs::resize_file(path, at + 4);
  slice.begin = 1, slice.end = 3;
  const std::string error = error_of([&] { elements_of(source, last, slice); }, Exit::io);
  CHECK(contains(error, "__0_0.distcp"));
}
