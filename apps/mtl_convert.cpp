// mtl-convert: converts a model from one format to another.
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "base/count_of.h"
#include "base/heartbeat.h"
#include "base/json.h"
#include "base/str.h"
#include "ckpt/convert_model.h"
#include "ckpt/model_formats.h"
#include "cli/flags/architecture_flags.h"
#include "cli/flags/model_flags.h"
#include "cli/flags/model_tokenizer.h"
#include "cli/single_process.h"
#include "device/device_choice.h"
#include "eval/compare_models.h"

using namespace mtl;

namespace {

using Comparison = std::optional<ModelComparison>;  // empty without --verify

Json to_json(const ConvertReport& report, const std::string& to, const Comparison& comparison) {
  Json out = Json::object({{"schema", "mtl-convert/1"},
                           {"source", report.source},
                           {"source_kind", report.source_kind},
                           {"output", report.output},
                           {"to", to},
                           {"replaced", report.replaced.empty() ? Json() : Json(report.replaced)},
                           {"dtype", report.dtype},
                           {"parameters", report.parameters},
                           {"bytes", report.bytes},
                           {"files", Json::Array(report.files.begin(), report.files.end())},
                           {"verified", comparison.has_value()}});
  if (comparison) {
    out.set("positions", comparison->positions);
    out.set("max_logit_difference", comparison->max_difference);
    out.set("max_logit", comparison->max_logit);
  }
  return out;
}

void describe(const ConvertReport& report, const Comparison& comparison, Console& console) {
  console.info(
      cat("read ", report.source, " (", report.source_kind, ", ", with_commas(report.parameters), " parameters)"));
  if (comparison) {
    const ModelComparison& found = *comparison;
    console.info(cat("verified: all tensors equal the source's; logits at ", found.positions,
                     " positions differ by at most ", found.max_difference, " (the largest has magnitude ",
                     format("%.4g", found.max_logit), ")"));
  }
  console.info(cat("wrote ", report.output, ": ", count_of(std::ssize(report.files), "file"), ", ", report.dtype, ", ",
                   human_bytes(report.bytes)));
}

/// Returns the table of formats, as text or as JSON.
std::string list_formats(bool as_json) {
  Json::Array rows;
  std::string text;
  for (const ModelFormat& row : model_formats()) {
    const std::pair<const char*, std::string_view> facts[] = {{"contains", row.recognized},
                                                              {"versions", row.versions},
                                                              {"reads", row.reads},
                                                              {"written_by", row.writes},
                                                              {"proof", row.proof}};
    Json object = Json::object({{"name", std::string(row.name)}, {"kind", std::string(row.kind)}});
    text += cat(text.empty() ? "" : "\n", row.name, ": ", row.kind, "\n");
    for (const auto& [name, fact] : facts) {
      object.set(name, std::string(fact));
      if (!fact.empty()) text += format("  %-11s %s\n", name, std::string(fact).c_str());
    }
    rows.push_back(std::move(object));
  }
  if (!as_json) return text;
  return Json::object({{"schema", "mtl-convert-formats/1"}, {"formats", std::move(rows)}}).dump(2) + "\n";
}

void add_megatron_output_flags(Flags& flags, ConvertOptions& options, std::string& transformer_impl) {
  MegatronWriteOptions& megatron = options.megatron;
  const auto to_megatron = [&options] { return options.to == "megatron"; };
  const auto to_ranks = [&options] { return options.to == "megatron" && options.ckpt_format == "torch"; };
  const char* only = "--to megatron";
  const char* only_ranks = "--to megatron --ckpt-format torch";
  flags.add("--ckpt-format", &options.ckpt_format, "FORMAT",
            "files for each rank with the weights, or files for every layout with weights and optimizer state",
            one_of({"torch", "torch_dist"}), only_with(only, to_megatron));
  flags.add("--tensor-model-parallel-size", &megatron.tensor_parallel, "N",
            "ranks that share each layer; each has its own files", within({1, 1 << 10}), only_with(only, to_megatron));
  flags.add("--pipeline-model-parallel-size", &megatron.pipeline_parallel, "N",
            "pipeline stages, each with consecutive layers", within({1, 1 << 10}), only_with(only_ranks, to_ranks));
  flags.add("--num-layers-per-virtual-pipeline-stage", &megatron.layers_per_virtual_stage, "N",
            "layers per chunk, for stages of several chunks", within({1, kMostLayers}),
            only_with(only_ranks, to_ranks));
  flags.add("--num-virtual-stages-per-pipeline-rank", &megatron.virtual_stages, "N", "chunks per stage",
            within({1, kMostLayers}), only_with(only_ranks, to_ranks));
  flags.add("--make-vocab-size-divisible-by", &megatron.make_vocab_size_divisible_by, "N",
            "pad the token embedding to a multiple of N times the tensor-parallel size", within({1, INT32_MAX}),
            only_with(only, to_megatron));
  flags.add("--transformer-impl", &transformer_impl, "NAME",
            "name the norms as Megatron-LM with this implementation does", one_of({"transformer_engine", "local"}),
            only_with(only, to_megatron));
  flags.check([&flags, &megatron, to_megatron] {
    if (to_megatron() && megatron.layers_per_virtual_stage && megatron.virtual_stages)
      flags.problem("--num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank",
                    "mean the same; use only one of them");
  });
}

/// The values of all flags.
struct ConvertCommand {
  ConvertOptions options;
  std::string device = "auto", transformer_impl = "transformer_engine";
  std::int64_t threads = 0;
  bool json = false;
};

void add_flags(Flags& flags, ConvertCommand& command) {
  ConvertOptions& options = command.options;
  flags.section("Model");
  flags.add("--load", &options.load, "PATH", cat("model to read: a --save folder of mtl-train, ", loadable_models()),
            required);
  flags.add("--save", &options.save, "DIR", "folder to write; appears only when complete", required);
  flags.add("--to", &options.to, "FORMAT",
            "output format: a Hugging Face folder, or a checkpoint of mtl or of Megatron-LM",
            one_of(written_formats()));
  flags.add("--dtype", &options.dtype, "TYPE", "element type of the weights (default: as stored)",
            one_of({"float32", "float16", "bfloat16"}));
  flags.add("--max-shard-size", &options.max_shard_size, "SIZE",
            "largest weight file of a Hugging Face folder, such as 500MB or 2GiB",
            only_with("with --to mtl or megatron", [&options] { return options.to == "hf"; }));
  add_megatron_output_flags(flags, options, command.transformer_impl);
  add_supplement_flags(flags, options.given);
  flags.section("Output");
  flags.add_switch("--verify", options.verify,
                   "read the output back, and compare every tensor and the logits of both models");
  flags.add_switch("--force", options.force, "replace a folder that contains only a model or one checkpoint");
  flags.add_switch("--json", command.json, "print the report as JSON");
  flags.add_listing(
      "--list-formats", [&command] { return list_formats(command.json); },
      "print the formats that --load reads and --to writes, and exit");
  add_device_flag(flags, command.device);
  add_threads_flag(flags, command.threads);
  flags.check([&flags, &command] {
    ConvertOptions& options = command.options;
    options.megatron.transformer_engine = command.transformer_impl == "transformer_engine";
    if (!parse_size(options.max_shard_size)) {
      flags.problem(
          "--max-shard-size " + options.max_shard_size,
          "is not a size from 1 byte to 1,000,000,000 GB; write bytes, or a number with KB, MB, GB (powers of 1000), "
          "KiB, MiB or GiB (powers of 1024), spelled as in 5GB, 500MB or 2GiB");
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  keep_thread_waits_short(argv);
  ConvertCommand command;
  ConvertOptions& options = command.options;
  options.command_line = join({argv, argv + argc}, " ");
  Flags flags("mtl-convert", "convert a model from one format to another");
  add_flags(flags, command);
  return run_single_process(flags, argc, argv, [&](Console& console) {
    std::atomic<const char*> step = "converting ";
    std::optional<Heartbeat> working(std::in_place, console, [&] { return cat(step.load(), options.load); });
    Comparison comparison;
    options.vocabulary_in = [](const std::string& folder) -> std::optional<std::int64_t> {
      const auto tokenizer = choose_tokenizer({}, folder);
      return tokenizer ? std::optional<std::int64_t>(tokenizer->vocab_size()) : std::nullopt;
    };
    Device device = Device::cpu;
    options.check_comparison = [&](const GptConfig& config) {
      device = device_to_use(command.device, console);
      check_comparison_memory(config, device);
    };
    options.compare_logits = [&](const ModelSource& source, const ModelSource& written) {
      step = "comparing logits with those of ";
      comparison = compare_models(source, written, resolve_threads(command.threads), device);
      return comparison->max_difference;
    };
    const ConvertReport report = convert_model(options, console);
    working.reset();
    if (command.json) {
      print_out(to_json(report, options.to, comparison).dump(2) + "\n");
    } else {
      describe(report, comparison, console);
    }
  });
}
