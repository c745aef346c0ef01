// torchtitan's checkpoints of Llama models, made from a golden one: refused for the right reason, or read.
#include <doctest/doctest.h>

#include <functional>

#include "base/json.h"
#include "ckpt/open_model.h"
#include "tests/ckpt/ckpt_fixtures.h"
#include "tests/ckpt/file_edits.h"
#include "tests/formats/dcp_entries.h"

using namespace mtl;
using namespace mtl::test;

namespace {

using DcpEntries = std::vector<DcpEntry>;

const std::string kTitan = "golden/dist_ckpt/titan_fp32/step-25",
                  kTitanConfig = "golden/dist_ckpt/models/tiny/config.json";

/// Writes a number as the only element of a tensor.
void set_number(DcpEntries& all, const std::string& key, float number, StoredDType dtype = StoredDType::f32) {
  const auto found = std::ranges::find(all, key, &DcpEntry::key);
  if (found != all.end()) all.erase(found);
  std::vector<std::byte> elements(bits_of(dtype) / 8);
  convert_elements(StoredDType::f32, std::as_bytes(std::span(&number, 1)), dtype, elements);
  all.push_back({.key = key, .dtype = dtype, .shape = {1}, .boxes = {{{0}, {1}, elements}}});
}

/// Returns the golden tensors, with numbers of steps as fp32.
DcpEntries titan_entries() {
  DcpEntries all = dcp_entries_of(DcpFolder(kTitan));
  std::erase_if(all, [](const DcpEntry& one) { return torch_name_of(one.dtype) != std::string("float32"); });
  set_number(all, "train_state.step", 25);
  for (DcpEntry& one : DcpEntries(all)) {
    if (ends_with(one.key, ".step")) set_number(all, one.key, 25);
  }
  return all;
}

/// Removes `from` from all keys that begin with it, and puts `to` there.
void rename_all(DcpEntries& all, const std::string& from, const std::string& to) {
  for (DcpEntry& one : all) {
    if (starts_with(one.key, from)) one.key = to + one.key.substr(from.size());
  }
}

}  // namespace

TEST_CASE("dcp llama: folders with other tensors are refused for the right reason, or read") {
  const std::string steps = "optimizer.state.tok_embeddings.weight.step", run = "train_state.step";
  struct Case {
    const char* expected;  // the numbers of the training state, or a part of the error or of the problem
    std::function<void(DcpEntries&)> change;
  };
  const auto alias = [](DcpEntries& all, const std::string& key, const std::string& other) {
    DcpEntry copy = dcp_entry(all, key);
    copy.key = other;
    all.push_back(copy);
  };
  const auto number = [](const std::string& key, float value, StoredDType dtype = StoredDType::f32) {
    return [=](DcpEntries& all) { set_number(all, key, value, dtype); };
  };
  const auto dropped = [](const std::string& key) {
    return [=](DcpEntries& all) { dcp_entry(all, key).key = "other"; };
  };
  const Case cases[] = {
      {"25 0 0 25 0 +", [](DcpEntries&) {}},
      {"25 0 0 25 0 +", [](DcpEntries& all) { rename_all(all, "model.", ""); }},
      {"25 0 0 25 0 +", [](DcpEntries& all) { rename_all(all, "optimizer.state.", "optimizer.state.model."); }},
      {"25 0 0 25 0 +", [&](DcpEntries& all) { alias(all, "model.norm.weight", "model.freqs_cis"); }},
      {"25 0 0 25 0 +", [&](DcpEntries& all) { alias(all, "model.norm.weight", "layers.0.other"); }},
      {"25 0 0 25 0 +",
       [&](DcpEntries& all) {
         rename_all(all, "model.", "");
         alias(all, "norm.weight", "other");
       }},
      {"tensor 'layers.0.other' is not a parameter of the Llama model",
       [&](DcpEntries& all) {
         rename_all(all, "model.", "");
         alias(all, "norm.weight", "layers.0.other");
       }},
      {"tensor 'model.other' is not a parameter of the Llama model",
       [&](DcpEntries& all) { alias(all, "model.norm.weight", "model.other"); }},
      {"tensor 'model.norm.weight' is missing", dropped("model.norm.weight")},
      {"the folder has tensors 'model.layers.0.attention.wk.weight', 'model.layers.0.attention.wo.weight', "
       "'model.layers.0.attention.wq.weight', 'model.layers.0.attention.wv.weight', but of PyTorch's",
       dropped("model.tok_embeddings.weight")},
      {"tensor 'model.layers.0.attention.wk.weight' is stored as BF16, but other parts of the same parameter as F32",
       [](DcpEntries& all) {
         DcpEntry& one = dcp_entry(all, "model.layers.0.attention.wk.weight");
         one.dtype = StoredDType::bf16;
         for (DcpEntry::Box& box : one.boxes) box.elements.resize(box.elements.size() / 2);
       }},
      {"tensor 'model.norm.weight' has shape (2, 4), but the configuration needs (8); use",
       [](DcpEntries& all) {
         DcpEntry& one = dcp_entry(all, "model.norm.weight");
         one.shape = {2, 4};
         one.boxes = {{{0, 0}, {2, 4}, std::vector<std::byte>(8 * 4)}};
       }},
      {"tensor 'model.tok_embeddings.weight' has shape (14, 8), but the configuration needs (13, 8)",
       [](DcpEntries& all) {
         DcpEntry& one = dcp_entry(all, "model.tok_embeddings.weight");
         one.shape = {14, 8};
         one.boxes = {{{0, 0}, {14, 8}, std::vector<std::byte>(14 * 8 * 4)}};
       }},
      {"30 0 0 25 5 +", number(run, 30)},
      {"25 0 0 20 5 +", number(steps, 20)},
      {"25 0 0 25 0 +", dropped(run)},
      {"0 0 0 0 0 +",
       [](DcpEntries& all) {
         for (const char* key : {"optimizer.state.tok_embeddings.weight.step", "train_state.step"})
           set_number(all, key, 0);
       }},
      {"the optimizer has taken 25 steps in 24 iterations", number(run, 24)},
      {"'optimizer.state.tok_embeddings.weight.step' is not a number of steps", number(steps, -1)},
      {"'optimizer.state.tok_embeddings.weight.step' is not a number of steps", number(steps, 1e9F)},
      {"'train_state.step' is not a number of steps", number(run, 25, StoredDType::bf16)},
      {"there is no tensor 'optimizer.state.tok_embeddings.weight.step' with one element", dropped(steps)},
      {"there is no tensor 'train_state.step' with one element",
       [&](DcpEntries& all) {
         DcpEntry& one = dcp_entry(all, run);
         one.shape = {2}, one.boxes.push_back(one.boxes[0]), one.boxes[1].offset = {1};
       }},
      {"there is no tensor 'train_state.step' with one element",
       [&](DcpEntries& all) {
         DcpEntry& one = dcp_entry(all, run);
         one.shape = one.boxes[0].size = {2}, one.boxes[0].elements.resize(8);
       }},
      {"no state -", dropped("optimizer.state.tok_embeddings.weight.exp_avg")},
      {"tensor 'optimizer.state.norm.weight.exp_avg_sq' is missing", dropped("optimizer.state.norm.weight.exp_avg_sq")},
  };
  Console console = quiet_console();
  const ModelSource golden = open_model(kTitan, console, {.hf_config = kTitanConfig});
  CHECK(golden.state()->extra.bool_or("consumed_samples_unknown", false));
  for (const Case& one : cases) {
    CAPTURE(std::string(one.expected));
    const ScratchFolder folder;
    DcpEntries entries = titan_entries();
    one.change(entries);
    write_dcp_entries(entries, folder.path());
    const std::string found = outcome([&] {
      ModelSource source = open_model(folder.path(), console, {.hf_config = kTitanConfig});
      for (const SavedTensor& tensor : source.tensors()) {
        CAPTURE(tensor.name);
        const Slice whole = whole_slice(tensor.shape);
        CHECK(same_bits(elements_of(source, tensor.name, whole), elements_of(golden, tensor.name, whole)));
      }
      return source;
    });
    CAPTURE(found);
    CHECK(contains(found, one.expected));
  }
}

TEST_CASE("dcp llama: without a config.json, the tensors describe the model, with a warning") {
  const ScratchFolder folder;
  DcpEntries entries = titan_entries();
  std::erase_if(entries, [](const DcpEntry& one) { return ends_with(one.key, "output.weight"); });
  write_dcp_entries(entries, folder.path());
  Console console = quiet_console();
  GptConfig expected = open_model(kTitan, console, {.hf_config = kTitanConfig}).config();
  expected.vocab_size = 10;
  expected.max_positions = 131072;
  expected.rotary.base = 500000;
  expected.tied_embeddings = true;
  expected.init_std = GptConfig().init_std;
  const std::string warning = stderr_of([&] {
    const ModelSource source = open_model(folder.path(), console, {.vocab_size = 10, .num_attention_heads = 2});
    CHECK(source.config() == expected);
    CHECK(!source.has_padded_vocabulary());
    CHECK(elements_of(source, "param.embedding.tokens.weight", whole_slice({10, 8})).size() == 80);
  });
  CHECK(contains(warning, "has no config.json; mtl assumes torchtitan's defaults for Llama 3: rotary base 500000"));
  const auto error = [&](const ModelSupplement& given, Exit code) {
    return error_of([&] { open_model(folder.path(), console, given); }, code);
  };
  CHECK(
      contains(error({.vocab_size = 14, .num_attention_heads = 2}, Exit::bad_data), "the configuration needs (14, 8)"));
  CHECK(contains(error({.num_attention_heads = 16}, Exit::usage), "16  does not divide the 8 rows"));
  const std::string deep = folder.path() + "/deep.json";
  write_text(deep, replaced(read_file(kTitanConfig), "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 1000"));
  CHECK(contains(error({.hf_config = deep}, Exit::bad_data), "has too few tensors for the 1000 layers in "));
}
