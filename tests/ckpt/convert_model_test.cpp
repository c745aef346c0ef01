// Conversions: sizes of shards, what the report says, and when a verification fails.
#include "ckpt/convert_model.h"

#include <doctest/doctest.h>

#include <limits>

#include "ckpt/manifest.h"
#include "ckpt_fixtures.h"
#include "formats/safetensors.h"

using namespace mtl;
using namespace mtl::test;

namespace {

ConvertOptions options_for(const std::string& from, const std::string& to) {
  ConvertOptions options;
  options.load = from;
  options.save = to;
  options.verify = true;
  options.compare_logits = [](const ModelSource&, const ModelSource&) { return 0.0; };
  return options;
}

}  // namespace

TEST_CASE("convert: sizes have decimal and binary units, and limits") {
  using Size = std::optional<std::uint64_t>;
  for (const auto& [text, bytes] : std::initializer_list<std::pair<const char*, Size>>{{"1000", 1000},
                                                                                       {"1", 1},
                                                                                       {"0.5", {}},
                                                                                       {"0.99KB", 990},
                                                                                       {"2KB", 2000},
                                                                                       {"2KiB", 2048},
                                                                                       {"2MB", 2'000'000},
                                                                                       {"2MiB", 2 << 20},
                                                                                       {"5GB", 5'000'000'000},
                                                                                       {"1GiB", 1 << 30},
                                                                                       {"1000000000GB", kMaxSize},
                                                                                       {"1000000001GB", {}},
                                                                                       {"nanGB", {}},
                                                                                       {"5gb", {}},
                                                                                       {"GB", {}},
                                                                                       {"", {}}}) {
    CAPTURE(text);
    CHECK(parse_size(text) == bytes);
  }
}

TEST_CASE("convert: the report, and what a checkpoint records") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(), false);
  fill(model.params, 1);
  for (const char* kind : {"trained", "trained in bf16", "model"}) {
    CAPTURE(kind);
    fs::remove_all(scratch / "s");
    fs::remove_all(scratch / "out");
    TrainState state = state_at(3);
    if (kind == std::string("trained in bf16"))
      state.extra = Json::object({{"precision", Json::object({{"exp_avg", "x"}})}});
    if (kind == std::string("model")) state.extra = Json::object();
    state.extra.set("dropout", dropout_to_json({0.25, 0.5, 0}));
    const std::string from = save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state);
    ConvertOptions options = options_for(from, scratch / "out");
    options.to = "mtl", options.dtype = "bfloat16", options.command_line = "mtl-convert --x";
    int checks = 0;
    options.check_comparison = [&](const GptConfig& config) { checks += config == tiny_config(); };
    Console console = quiet_console();
    const ConvertReport report = convert_model(options, console);
    CHECK(checks == 1);
    CHECK(report.source == from);
    CHECK(report.source_kind == "checkpoint");
    CHECK(report.output == scratch / "out");
    CHECK(report.replaced.empty());
    CHECK(report.dtype == "bfloat16");
    CHECK(report.parameters == 11 * 8 + 5 * 8 + 12 * 64 + 13 * 8 + 2 * 8);
    CHECK(report.files == std::vector<std::string>{"iter_0000003/manifest.json", "iter_0000003/shard_00000.safetensors",
                                                   "latest_checkpointed_iteration.txt"});
    std::uint64_t bytes = 0;
    for (const std::string& file : report.files) bytes += fs::file_size(cat(scratch / "out/", file));
    CHECK(report.bytes == bytes);
    const Manifest manifest = read_sound_manifest(scratch / "out/iter_0000003");
    CHECK(manifest.provenance.at("command_line").as_string() == "mtl-convert --x");
    CHECK(manifest.state.extra.at("dropout").at("attention").as_number() == 0.5);
    const Json* precision = manifest.state.extra.find("precision");
    REQUIRE((precision != nullptr) == (kind != std::string("model")));
    if (precision == nullptr) continue;
    CHECK(precision->at("main_params").as_string() == "bfloat16");
    CHECK((precision->find("exp_avg") != nullptr) == (kind == std::string("trained in bf16")));
  }
}

TEST_CASE("convert: logits may differ only if the conversion rounds") {
  const ScratchFolder scratch;
  const auto error_with = [&](const char* from, const char* dtype) {
    fs::remove_all(scratch / "out");
    ConvertOptions options = options_for(from, scratch / "out");
    if (*dtype != '\0') options.dtype = dtype;
    options.compare_logits = [](const ModelSource&, const ModelSource&) { return 0.5; };
    Console console = quiet_console();
    return error_of([&] { convert_model(options, console); });
  };
  const std::string differs = "verification failed: the logits of source and output differ by up to 0.5";
  CHECK(error_with("golden/gpt2_model/a", "") == differs);              // fp32
  CHECK(error_with("golden/llama_model/llama", "float32") == differs);  // fp16, of which each number is one of fp32
  CHECK_FALSE(file_exists(scratch / "out"));
  CHECK(error_with("golden/llama_model/llama", "bfloat16").empty());
  CHECK(error_with("golden/gpt2_model/a", "float16").empty());
}

TEST_CASE("convert: of many tensors with infinite elements, eight are listed, and a verification fails") {
  const ScratchFolder scratch;
  TestParams model(tiny_config(2), false);
  fill(model.params, 1e6F);  // beyond fp16
  const std::string from = save_alone(SaveDirectory(scratch / "s"), tiny_config(2), model.params, state_at(1));
  for (const char* to : {"hf", "mtl", "megatron"}) {
    CAPTURE(to);
    ConvertOptions options = options_for(from, scratch / "out");
    options.to = to, options.dtype = "float16";
    std::string error;
    const std::string warning = stderr_of([&] {
      Console console = quiet_console();
      error = error_of([&] { convert_model(options, console); });
    });
    const std::size_t all = canonical_tensors(tiny_config(2)).size();
    CHECK(contains(warning, "float16 cannot represent some elements"));
    CHECK(contains(error, "(8 of 8 elements)"));
    CHECK(split(error, '(').size() == 1 + 8);
    CHECK(contains(error, "verification failed: float16 cannot represent all elements of '"));
    CHECK(contains(error, cat(" elements) and ", all - 8, " more tensors; choose --dtype bfloat16")));
    CHECK_FALSE(file_exists(scratch / "out"));
  }
}

TEST_CASE("convert: NaN in the source is a warning with the tensor's name in the file, and its count") {
  const ScratchFolder scratch;
  fs::copy("golden/gpt2_model/a", scratch / "m", fs::copy_options::recursive);
  const std::string path = scratch / "m/model.safetensors";
  std::string text = read_file(path);
  {
    const SafetensorsFile file(path);
    for (const char* name : {"transformer.wte.weight", "transformer.h.0.ln_1.bias"}) {
      const std::size_t at = file.data(*file.find(name)).data() - file.bytes().data();
      std::memset(text.data() + at, 0xFF, 8);
    }
  }
  write_text(path, text);
  ConvertOptions options = options_for(scratch / "m", scratch / "out");
  options.verify = false;
  ConvertReport report;
  const auto warning_of = [&] {
    return stderr_of([&] {
      Console console = quiet_console();
      report = convert_model(options, console);
    });
  };
  const std::string warning = warning_of();
  CHECK(contains(warning, "contains NaN or infinity in "));
  CHECK(contains(warning, "'transformer.wte.weight' (2 of 32,768 elements)"));
  CHECK(contains(warning, "'transformer.h.0.ln_1.bias' (2 of 64 elements)"));
  CHECK(!contains(warning, "cannot represent"));
  CHECK(report.nonfinite.size() == 2);
  CHECK(report.nonfinite[0].in_source + report.nonfinite[0].in_output == 4);
  options.load = "golden/gpt2_model/a", options.save = scratch / "clean";
  CHECK(warning_of().empty());
  CHECK(report.nonfinite.empty());
  CHECK(report.dtype == "float32");
}

TEST_CASE("convert: config.json, its dropout and the size of the vocabulary are taken over") {
  const ScratchFolder scratch;
  Console console = quiet_console();
  ConvertOptions options = options_for("golden/gpt2_model/a", scratch / "mtl");
  options.to = "mtl";
  convert_model(options, console);
  const ModelSource written = open_quietly(scratch / "mtl");
  CHECK(written.hf_config() == Json::read("golden/gpt2_model/a/config.json"));
  REQUIRE(written.dropout());
  CHECK(written.dropout() == open_quietly("golden/gpt2_model/a").dropout());
  CHECK(read_sound_manifest(written.folder()).state.extra.find("precision") == nullptr);
  options.given.vocab_size = 511, options.save = scratch / "other";
  CHECK(contains(error_of([&] { convert_model(options, console); }, Exit::usage), "which has 512 tokens"));
  options.given.vocab_size = 512;
  convert_model(options, console);

  ConvertOptions padded = options_for("golden/megatron_ckpt/mcore_local_tp1pp1", scratch / "trimmed");
  padded.given.num_attention_heads = 4;
  padded.vocabulary_in = [](const std::string&) { return std::optional<std::int64_t>(512); };
  convert_model(padded, console);
  CHECK(open_quietly(scratch / "trimmed").config().vocab_size == 512);
}

TEST_CASE("convert: Megatron-LM's distributed format keeps unrounded main weights, and needs Adam's settings") {
  const ScratchFolder scratch;
  TestParams model(tiny_config());
  fill(model.params, 1.001F);
  const std::string from = save_alone(SaveDirectory(scratch / "s"), tiny_config(), model.params, state_at(1));
  ConvertOptions options = options_for(from, scratch / "out");
  options.to = "megatron", options.ckpt_format = "torch_dist", options.dtype = "bfloat16";
  const auto warning_of = [&] {
    return stderr_of([&] {
      Console console = quiet_console();
      convert_model(options, console);
    });
  };
  CHECK(contains(warning_of(), "does not state Adam's betas and epsilon"));
  CHECK(fs::exists(scratch / "out/iter_0000001/.metadata"));
  options.ckpt_format = "torch", options.save = scratch / "torch";
  CHECK(warning_of().empty());
  options.ckpt_format = "torch_dist", options.save = scratch / "weights", options.load = "golden/gpt2_model/a";
  CHECK(warning_of().empty());
}
