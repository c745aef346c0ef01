// The state of Megatron-LM's distributed optimizer: distrib_optim.pt gives the bits that the same optimizer state gives
// by parameter, and files that do not fit the model are refused.
#include "models/megatron_distrib_optim.h"
#include "ckpt/open_model.h"

#include <doctest/doctest.h>

#include "formats/torch_writer.h"
#include "models/megatron_buffers.h"
#include "optim/precision_presets.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"
#include "tests/golden_lines.h"

using namespace mtl;
using namespace mtl::test;

namespace {

const std::string kDistributed = "golden/distrib_optim/";
const std::string kOne = "gpt_fp32";  // a case of one rank
const std::string kOneFile = "/iter_0000030/mp_rank_00/distrib_optim.pt";

ModelSource open_run(const std::string& path) {
  Console console = quiet_console();
  return open_model(path, console, {.vocab_size = 45, .num_attention_heads = {}});
}

std::vector<std::byte> bytes_of(const ModelSource& source, const SavedTensor& tensor) {
  const Slice whole = whole_slice(tensor.shape);
  std::vector<std::byte> out(whole.count() * bits_of(tensor.dtype) / 8);
  source.read(tensor.name, whole, out);
  return out;
}

void check_same(const ModelSource& found, const ModelSource& expected) {
  REQUIRE(found.tensors().size() == expected.tensors().size());
  for (const SavedTensor& tensor : expected.tensors()) {
    CAPTURE(tensor.name);
    const SavedTensor* same = found.find_tensor(tensor.name);
    REQUIRE(same != nullptr);
    CHECK(same->dtype == tensor.dtype);
    CHECK(bytes_of(found, *same) == bytes_of(expected, tensor));
  }
}

/// What a distrib_optim.pt contains. The defaults are those of a sound file for kOne.
struct FlatFile {
  bool is_coalesced = true, has_buffer = true, has_second_buffer = false, has_moment = true;
  std::vector<const char*> dtypes = {"float32", "float32"};  // the buffer's key
  std::int64_t stated = 0;                                   // added to numel_unpadded
  std::int64_t shorter = 0;                                  // elements that exp_avg lacks
  bool is_matrix = false;                                    // exp_avg has two axes
  bool is_wide = false;                                      // exp_avg_sq has the dtype float64
  float added = 0;                                           // to the first main weight
  bool is_aligned = true;                                    // false: as megatron-core 0.7 wrote it

  void write(const std::string& path) const;
};

/// Returns a flat tensor in kOne's file.
std::vector<float> golden_flat(const TorchFile& file, const char* key) {
  for (std::size_t i = 0; i < file.root().size(); ++i) {
    if (!file.root().value(i).is(PickleKind::dict)) continue;
    const TorchTensor* tensor = file.tensor(*file.root().value(i).value(0).find(key));
    std::vector<float> out(tensor->count());
    read_elements(*tensor, 0, std::as_writable_bytes(std::span(out)));
    return out;
  }
  return {};
}

/// Moves the parameters from their aligned ranges to those without alignment.
std::vector<float> without_alignment(const std::vector<float>& aligned) {
  const TorchFile model(kDistributed + kOne + "/iter_0000030/mp_rank_00/model_optim_rng.pt");
  std::vector<MegatronBufferParam> params;
  const PickleValue weights = *model.root().find("model");
  for (std::size_t i = 0; i < weights.size(); ++i)
    params.push_back({.elements = model.tensor(weights.value(i))->count(), .has_own_bucket = false});
  const MegatronBuffer from = megatron_buffer(params, std::nullopt, kMegatronAlignment),
                       to = megatron_buffer(params, std::nullopt, kMegatronNoAlignment);
  REQUIRE(from.elements() == std::ssize(aligned));
  REQUIRE(to.elements() < from.elements());
  std::vector<float> out(to.elements());
  for (std::size_t i = 0; i < params.size(); ++i)
    std::copy_n(aligned.begin() + from.ranges[i].begin, params[i].elements, out.begin() + to.ranges[i].begin);
  return out;
}

void FlatFile::write(const std::string& path) const {
  const TorchFile golden(kDistributed + kOne + kOneFile);
  std::vector<std::vector<float>> flat;
  for (const char* key : {"param", "exp_avg", "exp_avg_sq"}) {
    flat.push_back(golden_flat(golden, key));
    if (!is_aligned) flat.back() = without_alignment(flat.back());
  }
  flat[0][0] += added;
  const std::int64_t elements = std::ssize(flat[0]);
  flat[1].resize(elements - shorter);
  OutputFile out(path);
  TorchWriter writer(out, "distrib_optim");
  PickleWriter& pickle = writer.pickle();
  auto tensor = [&](const char* key, StoredDType stored, const std::vector<std::int64_t>& shape) {
    pickle.text(key);
    writer.tensor(stored, shape);
  };
  pickle.begin_dict();
  if (is_coalesced) pickle.text("buckets_coalesced"), pickle.boolean(true);
  if (has_buffer) {
    pickle.integer(0);
    pickle.begin_dict();
    pickle.begin_tuple();
    for (const char* dtype : dtypes) pickle.global("torch", dtype);
    pickle.end_tuple();
    pickle.begin_dict();
    tensor("param", StoredDType::f32, {elements});
    std::vector<std::int64_t> shape = {elements - shorter};
    if (is_matrix) shape = {2, elements / 2};
    tensor("exp_avg", StoredDType::f32, shape);
    if (has_moment) tensor("exp_avg_sq", is_wide ? StoredDType::f64 : StoredDType::f32, {elements});
    pickle.text("numel_unpadded"), pickle.integer(elements + stated);
    pickle.end_dict();
    pickle.end_dict();
  }
  if (has_second_buffer) pickle.integer(1), pickle.begin_dict(), pickle.end_dict();
  pickle.end_dict();
  if (has_buffer) {
    writer.write_data(std::as_bytes(std::span(flat[0])));
    writer.write_data(std::as_bytes(std::span(flat[1])));
    const std::vector<double> wide(flat[2].begin(), flat[2].end());
    if (has_moment) writer.write_data(is_wide ? std::as_bytes(std::span(wide)) : std::as_bytes(std::span(flat[2])));
  }
  writer.finish();
  out.close();
}

/// Copies a case, without its distrib_optim.pt on rank `rank` if there is a name.
std::string copy_run(const ScratchFolder& scratch, const std::string& name, const std::string& without = "") {
  const std::string to = scratch / name;
  fs::remove_all(to);
  fs::copy(kDistributed + name, to, fs::copy_options::recursive);
  if (!without.empty()) fs::remove(to + without);
  return to;
}

/// Replaces kOne's file and opens and verifies the checkpoint.
ModelSource open_with(const ScratchFolder& scratch, const FlatFile& file) {
  const std::string path = copy_run(scratch, kOne, kOneFile);
  file.write(path + kOneFile);
  ModelSource source = open_run(path);
  source.verify();
  return source;
}

}  // namespace

TEST_CASE("megatron distributed: every case equals the same state by parameter, bit for bit") {
  for (const char* name : {"llama_tp2", "gpt_pp2", "gpt_fp32"}) {
    CAPTURE(name);
    const ModelSource source = open_run(kDistributed + name), plain = open_run(cat(kDistributed, name, "_plain"));
    CHECK(source.optimizer_problem().empty());
    REQUIRE(source.has_optimizer());
    REQUIRE(plain.has_optimizer());
    source.verify();
    check_same(source, plain);
    REQUIRE(source.state());
    CHECK(source.state()->iteration == 30);
    CHECK(source.state()->optimizer_steps == 30);
    CHECK(source.state()->consumed_samples == 240);
    CHECK(source.identity().find("distrib_optim.pt") != std::string::npos);
  }
}

TEST_CASE("megatron distributed: parameters without alignment, as megatron-core 0.7 wrote them") {
  const ScratchFolder scratch;
  check_same(open_with(scratch, {}), open_run(kDistributed + kOne + "_plain"));
  check_same(open_with(scratch, {.is_aligned = false}), open_run(kDistributed + kOne + "_plain"));
}

TEST_CASE("megatron distributed: a file that does not fit the model is refused, and so is one of another save") {
  const ScratchFolder scratch;
  const std::pair<FlatFile, const char*> faults[] = {
      {{.is_coalesced = false}, "a tensor for each bucket, as before megatron-core 0.7"},
      {{.has_buffer = false}, "gradient buffer 0 is missing"},
      {{.has_second_buffer = true}, "has a gradient buffer 1, but the model has only 1 chunk"},
      {{.has_moment = false}, "'exp_avg_sq' of gradient buffer 0 is missing"},
      {{.dtypes = {"bfloat16", "float32"}},
       "gradient buffer 0 is for bfloat16, but 'embedding.tokens.weight' is stored as float32"},
      {{.dtypes = {"Size", "float32"}}, "instead of a pair of dtypes"},
      {{.dtypes = {"float32", "Size"}}, "instead of a pair of dtypes"},
      {{.dtypes = {"float32"}}, "instead of a pair of dtypes"},
      {{.dtypes = {"float32", "float32", "float32"}}, "instead of a pair of dtypes"},
      {{.stated = 64}, "but the model's parameters need"},
      {{.stated = -1}, "but the model's parameters need"},
      {{.shorter = 1}, "'exp_avg' of gradient buffer 0 is a tensor of F32 with shape"},
      {{.is_matrix = true}, "'exp_avg' of gradient buffer 0 is a tensor of F32 with shape (2, "},
      {{.is_wide = true}, "'exp_avg_sq' of gradient buffer 0 is a tensor of F64"},
      {{.added = 1}, "does not round to the weights in model_optim_rng.pt"},
  };
  for (const auto& [file, message] : faults) {
    CAPTURE(message);
    const std::string error = error_of([&] { open_with(scratch, file); }, Exit::bad_data);
    CHECK(contains(error, message));
    CHECK(contains(error, "mp_rank_00/distrib_optim.pt: "));
    CHECK(contains(error, "the distrib_optim.pt files away to use the weights alone"));
  }
}

TEST_CASE("megatron distributed: variants of a file are refused for the right reason, or read") {
  const ScratchFolder scratch;
  int refused = 0, accepted = 0;
  for (const Json& entry : golden_lines(kDistributed + "odd.jsonl")) {
    CAPTURE(entry.at("name").as_string());
    const std::string base = entry.at("base").as_string(), path = copy_run(scratch, base);
    apply_edits(path, entry.at("edits"));
    if (entry.at("message").is_null()) {
      const ModelSource source = open_run(path);
      source.verify();
      check_same(source, open_run(cat(kDistributed, base, "_plain")));
      ++accepted;
    } else {
      const std::string error = error_of([&] { open_run(path).verify(); }, Exit::bad_data);
      CHECK(contains(error, entry.at("message").as_string()));
      ++refused;
    }
  }
  CHECK(accepted == 3);
  CHECK(refused == 9);
}

TEST_CASE("megatron distributed: a rank that loads a parameter compares its main weights") {
  const ScratchFolder scratch;
  const std::string path = copy_run(scratch, kOne, kOneFile);
  FlatFile{.added = 1}.write(path + kOneFile);
  const ModelSource source = open_run(path);
  TestParams model(source.config(), true, 0, find_precision("fp32"));
  CHECK(contains(error_of([&] { source.load_values(model.params); }, Exit::bad_data), "does not round to the weights"));
}

TEST_CASE("megatron distributed: files of exchanged ranks and incomplete files are refused") {
  const ScratchFolder scratch;
  const std::string path = copy_run(scratch, "llama_tp2");
  const std::string files[] = {path + "/iter_0000030/mp_rank_00/distrib_optim.pt",
                               path + "/iter_0000030/mp_rank_01/distrib_optim.pt"};
  const std::string contents[] = {read_file(files[0]), read_file(files[1])};
  write_text(files[0], contents[1]), write_text(files[1], contents[0]);  // the sizes of all tensors fit
  CHECK(contains(error_of([&] { open_run(path).verify(); }, Exit::bad_data), "does not round to the weights"));
  write_text(files[0], contents[0]), write_text(files[1], contents[1]);
  CHECK_NOTHROW(open_run(path).verify());
  for (const std::size_t size : {contents[1].size() / 2, std::size_t{0}}) {
    write_text(files[1], contents[1].substr(0, size));
    CHECK(contains(error_of([&] { open_run(path); }, Exit::bad_data), "mp_rank_01/distrib_optim.pt: "));
  }
}

TEST_CASE("megatron distributed: one missing file is an error, and without all of them there are only weights") {
  const ScratchFolder scratch;
  const std::string first = "/iter_0000030/mp_rank_00/distrib_optim.pt",
                    second = "/iter_0000030/mp_rank_01/distrib_optim.pt";
  const std::string path = copy_run(scratch, "llama_tp2", second);
  CHECK(contains(error_of([&] { open_run(path); }, Exit::bad_data),
                 "mp_rank_01/distrib_optim.pt: the file is missing, but other ranks have theirs"));
  fs::remove(path + first);
  const ModelSource source = open_run(path);
  CHECK(!source.has_optimizer());
  CHECK(contains(source.optimizer_problem(), "mp_rank_00/distrib_optim.pt is missing"));
  REQUIRE(source.state());
  CHECK(source.state()->iteration == 30);
  CHECK(source.state()->consumed_samples == 240);
  CHECK(source.find_tensor("param.final_norm.weight")->dtype == StoredDType::bf16);
}
